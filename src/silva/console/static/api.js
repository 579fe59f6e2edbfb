// Questions, orders, and what the server tells as it happens.
export async function ask(name, query = {}) {
  const given = Object.fromEntries(Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== ""));
  return answered(await sent(`/api/${name}?${new URLSearchParams(given)}`));
}

export async function order(name, body) {
  return answered(await sent(`/api/${name}`, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) }));
}

async function sent(where, more) {
  try { return await fetch(where, more); } catch { throw new Error("the console does not answer: try again once it is live"); }
}

async function answered(response) {
  let body = {};
  try { body = await response.json(); } catch { body = { error: `the server answered ${response.status}` }; }
  if (!response.ok) throw new Error(body.error ?? `the server answered ${response.status}`);
  return body;
}

// A page's stream. `again` is called after a gap (the browser or the server was gone): the page then asks for what it missed.
// A browser keeps six connections to a server, and a stream holds one: a tab that nobody sees lets go of its own.
const UNSEEN = 4000; // milliseconds
export function listen(query, { told, again, state }) {
  let source = null, opened = false, closed = false, waiting = 0;
  const open = () => {
    if (document.hidden) return;
    source = new EventSource(`/events?${new URLSearchParams(query)}`);
    source.onopen = () => { state(true); if (opened) again(); opened = true; };
    source.onmessage = (event) => {
      const news = JSON.parse(event.data);
      if (news.stale) again();
      if (news.inbox) dispatchEvent(new Event("silva-inbox")); // the count in the head of every page
      told(news);
    };
    source.onerror = () => {
      state(false);
      if (source.readyState === EventSource.CLOSED && !closed) { clearTimeout(waiting); waiting = setTimeout(open, 1500); }
    };
  };
  const seen = () => {
    clearTimeout(waiting);
    if (document.hidden) waiting = setTimeout(() => { source?.close(); source = null; }, UNSEEN);
    else if (!source || source.readyState === EventSource.CLOSED) open();
  };
  document.addEventListener("visibilitychange", seen);
  open();
  return () => { closed = true; clearTimeout(waiting); document.removeEventListener("visibilitychange", seen); source?.close(); };
}

export function tell(text, wrong = false) {
  const place = document.getElementById("said");
  const line = document.createElement("p");
  line.textContent = text;
  if (wrong) line.className = "wrong";
  place.append(line);
  while (place.childElementCount > 4) place.firstElementChild.remove();
  setTimeout(() => line.remove(), wrong ? 12000 : 5000);
}

// Runs work of an event handler; what goes wrong is told, never lost in the console.
export const tried = (work) => async (...given) => {
  try { return await work(...given); } catch (fault) { tell(fault.message, true); return undefined; }
};
