#!/bin/sh
# Does an archive call anything but memory and string functions (and what the compiler itself puts in)?
# usage: check_symbols.sh ARCHIVE
set -eu
[ $# = 1 ] || { echo "usage: $0 ARCHIVE" >&2; exit 2; }

allowed='^(mem(cpy|move|set|cmp|chr)|str(cmp|ncmp|len|chr)|__stack_chk_fail|_GLOBAL_OFFSET_TABLE_)$'

list=$(nm --format=posix "$1")
defined=$(printf '%s\n' "$list" | awk '$2 ~ /^[TDBRVWC]$/ { print $1 }' | sort -u)
called=$(printf '%s\n' "$list" | awk '$2 == "U" || $2 == "w" { print $1 }' | sort -u)
[ -n "$defined" ] || { echo "$1: defines nothing, so this check would say nothing" >&2; exit 2; }

foreign=$(printf '%s\n%s\n%s\n' "$defined" "$defined" "$called" | sort | uniq -u | grep -Evx "$allowed" || true)
if [ -n "$foreign" ]; then
  echo "$1 must stay sans-I/O, but calls:" >&2
  printf '  %s\n' $foreign >&2
  exit 1
fi
echo "$1: calls memory and string functions only"
