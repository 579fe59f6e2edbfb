"""Run in the browser environments' own interpreter by test_browser.py: what Chromium can reach, told as JSON.

`escape PORT` tries to reach a server of the machine; `wait` opens a page and waits to be killed.
"""

import asyncio
import json
import sys

from playwright.async_api import Error

from silva.envs.gyms.browser.chromium import Chromium, Settings
from silva.envs.gyms.browser.website import page


class Hello:
    def respond(self, request):
        return page("Hello", "<p>hello</p>")


async def tried(tab, url: str) -> str:
    try:
        answer = await tab.goto(url, timeout=8000)
    except Error as error:
        return str(error).splitlines()[0]
    return str(answer.status) if answer is not None else "no answer"


async def escape(port: str) -> dict:
    chromium = await Chromium.take(Settings())
    proxy = chromium.proxy()
    tab = await chromium.tab(proxy, {"hello.test": Hello()}, 400, 300)
    seen = {"site": await tried(tab.page, "http://hello.test/")}
    fetching = "url => fetch(url, {mode: 'no-cors'}).then(r => r.type + r.status, e => 'failed')"
    seen["fetch"] = await tab.page.evaluate(fetching, f"http://127.0.0.1:{port}/")
    seen["localhost"] = await tried(tab.page, f"http://localhost:{port}/")
    seen["loopback"] = await tried(tab.page, f"http://127.0.0.1:{port}/")
    seen["address"] = await tried(tab.page, "http://1.1.1.1/")
    seen["name"] = await tried(tab.page, "http://example.com/")
    seen["tunnel"] = await tried(tab.page, "https://example.com/")
    seen["file"] = await tried(tab.page, "file:///etc/passwd")
    seen["home"] = await tried(tab.page, "file:///root/.bashrc")
    # Past the proxy, there is no network at all.
    bare = await chromium._browser.new_context(proxy={"server": "http://127.0.0.1:1", "bypass": "127.0.0.1,1.1.1.1"})
    direct = await bare.new_page()
    seen["direct loopback"] = await tried(direct, f"http://127.0.0.1:{port}/")
    seen["direct address"] = await tried(direct, "http://1.1.1.1/")
    status = await bare.new_page()
    await status.goto("chrome://sandbox")
    seen["sandboxed"] = "You are adequately sandboxed" in await status.inner_text("body")
    await bare.close()
    await tab.context.close()
    chromium.give_back(proxy)
    await chromium.release()
    return seen


async def main() -> None:
    if sys.argv[1] == "escape":
        print(json.dumps(await escape(sys.argv[2])), flush=True)
        return
    chromium = await Chromium.take(Settings())
    tab = await chromium.tab(chromium.proxy(), {"hello.test": Hello()}, 400, 300)
    await tab.page.goto("http://hello.test/")
    print("open", flush=True)
    if sys.argv[1] == "wait":
        await asyncio.sleep(600)
    await tab.context.close()
    await chromium.release()
    print("closed", flush=True)
    await asyncio.sleep(600)


asyncio.run(main())
