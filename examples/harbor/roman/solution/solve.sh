#!/bin/bash
set -e
cat > /app/roman.py <<P
import sys
n = int(sys.argv[1])
if not 1 <= n <= 3999:
    sys.exit("1 to 3999")
out = ""
for value, text in zip((1000, 900, 500, 400, 100, 90, 50, 40, 10, 9, 5, 4, 1), "M CM D CD C XC L XL X IX V IV I".split()):
    while n >= value:
        out, n = out + text, n - value
print(out)
P
