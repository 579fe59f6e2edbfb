"""Set up the service by asking. It must be run at a terminal."""

import hashlib
import sys
from pathlib import Path


def ask(question, good, why):
    while True:
        answer = input(f"{question}: ").strip()
        if good(answer):
            return answer
        print(f"  {why}")


def main():
    if not sys.stdin.isatty():
        sys.exit("run this at a terminal: it asks questions")
    name = ask("Name of the service", str.isidentifier, "letters, digits and underscores only")
    port = ask("Port", lambda text: text.isdigit() and 1024 <= int(text) <= 65535, "a number from 1024 to 65535")
    print("Your settings:", name, port)
    code = hashlib.sha256(f"{name}:{port}".encode()).hexdigest()[:4]
    ask(f"Type {code} to agree", lambda text: text == code, "that is something else")
    mark = hashlib.sha256(f"agreed:{name}:{port}".encode()).hexdigest()[:16]
    Path("service.conf").write_text(f"name = {name}\nport = {port}\nmark = {mark}\n")
    print("written to service.conf")


if __name__ == "__main__":
    main()
