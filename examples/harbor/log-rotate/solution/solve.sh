#!/bin/bash
set -e
cat > /app/rotate.sh <<'P'
#!/bin/bash
if [ -e "$1.1" ]; then mv "$1.1" "$1.2"; fi
mv "$1" "$1.1"
: > "$1"
P
chmod +x /app/rotate.sh
