#!/bin/bash
set -e
cd /app
python3 - <<P
import csv, json, collections
s = collections.Counter()
for row in csv.DictReader(open("sales.csv")):
    s[row["region"]] += int(row["amount"])
json.dump(s, open("report.json", "w"))
P
