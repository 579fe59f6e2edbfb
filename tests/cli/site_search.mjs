// Asks the site's own search: node site_search.mjs SITE QUERY… prints for each query the pages found, best first.
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import vm from "node:vm";

const [site, ...queries] = process.argv.slice(2);
const workers = join(site, "assets/javascripts/workers");
const worker = readdirSync(workers).find((name) => /^search\..*\.js$/.test(name));
const answers = [];
let heard;
const scope = {
  console,
  postMessage: (answer) => answers.push(answer),
  addEventListener: (kind, listener) => (heard = listener),
};
scope.self = scope;
vm.runInNewContext(readFileSync(join(workers, worker), "utf8"), scope);

async function ask(message) {
  heard({ data: message });
  while (!answers.length) await new Promise(setImmediate);
  return answers.pop();
}

const index = JSON.parse(readFileSync(join(site, "search/search_index.json"), "utf8"));
await ask({ type: 0, data: { ...index, options: {} } });
const found = {};
for (const query of queries) {
  const { data } = await ask({ type: 2, data: query });
  found[query] = data.items.map((parts) => parts[parts.length - 1].location.split("#")[0]);
}
console.log(JSON.stringify(found));
