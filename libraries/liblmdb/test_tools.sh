#!/bin/sh
# Tests of mdb_stat, mdb_copy, mdb_dump, mdb_load and mdb_drop: run where they and mdb_check were built.
#
#     test_tools.sh            the last line is `N passed, M failed`
#
# MDB_TEST_PAGESIZE chooses the one page size to test; without it there are several. Where LMDB's own tools are
# installed (Debian's lmdb-utils), both must print the same and read each other's dumps.
# Options are split into words on purpose, and numbers of pages hold no blanks.
# shellcheck disable=SC2016,SC2017,SC2059,SC2086
set -u
LC_ALL=C
export LC_ALL

tools=$(pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/test_tools.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM HUP
cd "$work" || exit 1
PATH=$tools:$PATH

page_sizes=${MDB_TEST_PAGESIZE:-512 4096 16384 32768}
page_size=4096
map_size=4194304
passed=0
failed=0

# check WHAT COMMAND...: one check, passed if the command succeeds. What it prints is shown only if it fails.
check()
{
    what=$1
    shift
    if "$@" >check.log 2>&1; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED: $what: $*"
        head -n 20 check.log
    fi
}

# status N COMMAND...: succeeds if the command exits with N.
status()
{
    expected=$1
    shift
    "$@"
    actual=$?
    [ "$actual" -eq "$expected" ] || { echo "exit status $actual"; return 1; }
}

# says TEXT FILE: the file has this text in it.
says()
{
    grep -qF -- "$1" "$2" || { cat "$2"; return 1; }
}

silent()
{
    [ ! -s "$1" ] || { cat "$1"; return 1; }
}

# records_are TEXT ENVIRONMENT: all lines of records of the main database, in a row.
records_are()
{
    [ "$(mdb_dump -p "$2" | grep '^ ' | tr -d '\n')" = "$1" ]
}

# fresh NAME...: new empty directories.
fresh()
{
    rm -rf "$@" && mkdir "$@"
}

# spelled N CHARACTER: the character N times.
spelled()
{
    head -c "$1" /dev/zero | tr '\0' "$2"
}

# The number as the hex digits of a 64-bit integer in this machine's byte order; up to 65535.
if [ "$(printf '\1\0' | od -An -tu2 | tr -d ' ')" = 1 ]; then
    integer() { printf '%02x%02x000000000000' $(($1 % 256)) $(($1 / 256)); }
else
    integer() { printf '%016x' "$1"; }
fi

all_bytes_hex()
{
    i=0
    while [ $i -lt 256 ]; do
        printf '%02x' $i
        i=$((i + 1))
    done
}

all_bytes_printable()
{
    i=0
    while [ $i -lt 256 ]; do
        if [ $i -ge 32 ] && [ $i -le 126 ] && [ $i -ne 92 ]; then
            printf "\\$(printf %03o $i)"
        else
            printf '\\%02x' $i
        fi
        i=$((i + 1))
    done
}

# ==== Dumps to load: exactly as mdb_dump writes them ====================

# header FORMAT DATABASE FLAG...: DATABASE empty: the main one.
header()
{
    printf 'VERSION=3\nformat=%s\n' "$1"
    [ -z "$2" ] || printf 'database=%s\n' "$2"
    printf 'type=btree\nmapsize=%s\nmaxreaders=126\n' "$map_size"
    shift 2
    for flag; do
        [ "$flag" != dupsort ] || printf 'duplicates=1\n'
    done
    for flag; do
        printf '%s=1\n' "$flag"
    done
    printf 'db_pagesize=%s\nHEADER=END\n' "$page_size"
}

# numbered N KEY VALUE: N records or values, where & stands for a number.
numbered()
{
    seq -w "$1" | sed "s/.*/ $2\\n $3/"
}

# Integers 1, 4, 7 ... as keys, or as values of the key 6b.
integer_keys()
{
    i=1
    while [ $i -lt 900 ]; do
        printf ' %s\n %04x\n' "$(integer $i)" $i
        i=$((i + 3))
    done
}

integer_values()
{
    i=1
    while [ $i -lt 900 ]; do
        printf ' 6b\n %s\n' "$(integer $i)"
        i=$((i + 3))
    done
}

# Every byte, empty values, keys and values up to the limits. $1: hex digits of the longest key.
awkward_records()
{
    printf ' 00\n \n'
    printf ' 00010a5c\n %s\n' "$(all_bytes_hex)"
    printf ' 0a\n 0a\n'
    printf ' 0d\n 0d0a\n'
    printf ' 20\n 20\n'
    printf ' 5c\n 5c5c\n'
    printf ' 5c3563\n 5c6e5c\n'
    printf ' 61\n 62\n'
    printf ' 62\n %s\n' "$(spelled 200000 7)"
    printf ' %s\n %s\n' "$1" "$(spelled 1022 8)"
    printf ' ff\n ff\n'
}

longest_key()
{
    size=511
    [ "$page_size" -ge 2048 ] || size=$(((page_size - 16) / 4 * 2 - 2 - 56))
    spelled $((2 * size)) 9
}

awkward_dump()
{
    header bytevalue "$1"
    awkward_records "$(longest_key)"
    echo DATA=END
}

# One database of each kind, in the order of their names.
kinds_dump()
{
    header bytevalue 'a plain one'
    awkward_records "$(longest_key)"
    echo DATA=END
    header bytevalue 'b duplicates' dupsort
    printf ' 00\n 00\n 00\n 0a\n 61\n 62\n'
    seq -w 1500 | sed 's/./3&/g; s/.*/ 62\n &/'
    printf ' 63\n 64\n'
    echo DATA=END
    header bytevalue 'c fixed' dupsort dupfixed
    seq -w 1500 | sed 's/./3&/g; s/.*/ 62\n &/'
    printf ' 63\n 31323334\n'
    echo DATA=END
    header bytevalue 'd integers' integerkey
    integer_keys
    echo DATA=END
    header bytevalue 'e reversed' reversekey
    printf ' 7a61\n 31\n 7962\n 32\n 7863\n 33\n'
    echo DATA=END
    header bytevalue 'f integer values' dupsort dupfixed integerdup
    integer_values
    echo DATA=END
    header bytevalue 'g reversed values' dupsort reversedup
    printf ' 6b\n 7a61\n 6b\n 7962\n 6b\n 7863\n'
    echo DATA=END
    header bytevalue 'h all at once' reversekey dupsort dupfixed reversedup
    printf ' 7a61\n 7a61\n 7a61\n 7962\n 7962\n 7863\n'
    echo DATA=END
    header bytevalue 'i nothing'
    echo DATA=END
    header bytevalue "$(printf 'j \001\177\200\377\\x\\5c= ')"
    printf ' 61\n 62\n'
    echo DATA=END
}

# ==== Dump and load ======================================================

# loads_back OPTIONS FILE NAME: the dump, loaded into a new environment, is dumped as the same bytes, without a word.
loads_back()
{
    fresh "$3"
    mdb_load "$3" <"$2" 2>words || { cat words; return 1; }
    silent words || return 1
    mdb_dump $1 "$3" >again || return 1
    cmp "$2" again
}

# The same by way of a printable dump.
printable_round_trip()
{
    mdb_dump -q -p $1 "$2" >printable && fresh there && mdb_load there <printable && mdb_dump -q $1 there >again &&
        cmp again "$3"
}

test_round_trips()
{
    for page_size in $page_sizes; do
        kinds_dump >kinds.$page_size
        awkward_dump '' >awkward.$page_size
        header bytevalue '' dupsort dupfixed integerdup >main_flags.$page_size
        integer_values >>main_flags.$page_size
        echo DATA=END >>main_flags.$page_size
        check "all kinds, pages of $page_size" loads_back -a kinds.$page_size kinds_env.$page_size
        check "all bytes and sizes, pages of $page_size" loads_back '' awkward.$page_size awkward_env.$page_size
        check "flags of the main database, pages of $page_size" loads_back '' main_flags.$page_size \
            main_flags_env.$page_size
        check "databases of all kinds are sound, pages of $page_size" mdb_check kinds_env.$page_size
        check "large values are sound, pages of $page_size" mdb_check awkward_env.$page_size
        check "printable, pages of $page_size" printable_round_trip -a kinds_env.$page_size kinds.$page_size
        check "printable main, pages of $page_size" printable_round_trip '' awkward_env.$page_size awkward.$page_size
        mdb_stat -e kinds_env.$page_size >out
        check "page size $page_size from the header" says "  Page size: $page_size" out
        check "map size from the header" says "  Map size: $map_size" out
        check "readers from the header" says "  Max readers: 126" out
    done
    page_size=${MDB_TEST_PAGESIZE:-4096}
}

printable_text()
{
    mdb_dump -p -s 'a plain one' "kinds_env.$page_size" >out
    printf ' %s\n' "$(all_bytes_printable)" >line
    check "a printable dump shows what can be shown" grep -qxF -f line out
    check "a backslash is written as digits" grep -qxF ' \5c5c' out
    check "a newline is written as digits" grep -qxF ' \0a' out
}

# Both ways to write a backslash, and bytes as they are, are read.
printable_variants()
{
    fresh variants
    { header print '' && printf ' a\n \\\\b\\\\\\5c\\5C\001\377\n' && echo DATA=END; } >in
    check "escapes of all kinds are read" mdb_load variants <in
    mdb_dump variants >out
    check "escapes are decoded" grep -qx ' 5c625c5c5c01ff' out
    { header bytevalue '' && printf ' 62\n ABCDEF\n' && echo DATA=END; } >in
    check "large hex digits are read" mdb_load variants <in
    mdb_dump variants >out
    check "large hex digits are decoded" grep -qx ' abcdef' out
}

# LMDB loses these.
empty_duplicates()
{
    { header bytevalue '' dupsort && printf ' 00\n \n 00\n 00\n 00\n 0a\n 61\n \n 62\n \n 62\n 63\nDATA=END\n'; } >in
    check "empty duplicates" loads_back '' in empty_duplicates
}

newline_in_name()
{
    name=$(printf 'two\nlines ')
    { header bytevalue 'two?lines ' | sed 's/^database=.*/&\ndatabase_hex=74776f0a6c696e657320/'
      printf ' 61\n 62\nDATA=END\n'; } >in
    check "a name with a newline" loads_back -a in newline
    check "a name with a newline can be chosen" status 0 mdb_dump -s "$name" newline
    fresh there
    sed '/^database=/d' in >hex_only
    check "database_hex alone" mdb_load there <hex_only
    sed -n '/^database=/{h;n;G;};p' in >hex_first
    check "database_hex in front of database" mdb_load there <hex_first
    check "neither made another name" [ "$(mdb_dump -l there | wc -l)" -eq 2 ]
}

test_dump_and_load()
{
    test_round_trips
    printable_text
    printable_variants
    newline_in_name
    empty_duplicates

    mdb_dump -l "kinds_env.$page_size" >out
    sed -n 's/^database=//p' "kinds.$page_size" >in
    check "names are listed" cmp in out
    check "-l and -s exclude each other" status 1 mdb_dump -l -s x "kinds_env.$page_size"
    check "-a and -s exclude each other" status 1 mdb_dump -a -s x "kinds_env.$page_size"
    check "a database that is missing" status 1 mdb_dump -s missing "kinds_env.$page_size"
    check "-f writes a file" mdb_dump -a -f file "kinds_env.$page_size"
    check "that is the dump" cmp file "kinds.$page_size"
    fresh there
    check "-f reads a file" mdb_load -f file there
    check "a file that is missing" status 1 mdb_load -f missing there
    check "a directory that is missing" status 1 mdb_load -f file missing
    if [ -c /dev/full ]; then
        check "a full disk is noticed" status 1 sh -c 'mdb_dump -a "$1" >/dev/full' sh "kinds_env.$page_size"
    fi

    printf 'a\nb\n c \\41\n\\\\d\n' >in
    fresh there
    check "plain text" mdb_load -T -s text there <in
    { header print text && printf ' \\20c A\n \\5cd\n a\n b\n' | sed 's/^ .20/  /' && echo DATA=END; } >expected
    mdb_dump -p -s text there | sed '/^mapsize/d; /^db_pagesize/d' >out
    sed -i '/^mapsize/d; /^db_pagesize/d' expected
    check "plain text is stored in the database of -s" cmp out expected

    fresh there
    mdb_dump "kinds_env.$page_size" 2>words >/dev/null
    check "nothing to say about a main database" silent words
    { header print '' && printf ' x\n y\n' && echo DATA=END; } | mdb_load there
    header print sub >in && echo DATA=END >>in && mdb_load there <in
    mdb_dump -a there >out 2>words
    check "-a leaves a plain record of the main database out" [ "$(grep -c '^database' out)" -eq 1 ]
    check "and says so" says '1 records of the main database' words
    fresh there
    { header print '' && echo DATA=END; } | mdb_load there
    check "-a of an environment without databases" status 1 mdb_dump -a there
}

# ==== Loading into what exists ==========================================

test_load_options()
{
    fresh there
    { header print '' && printf ' a\n 1\n c\n 3\n' && echo DATA=END; } | mdb_load there
    { header print '' && printf ' a\n 2\n b\n 2\n' && echo DATA=END; } >in
    check "-N" mdb_load -N there <in
    check "-N keeps what is there and adds the rest" records_are ' a 1 b 2 c 3' there
    check "without -N" mdb_load there <in
    check "data is replaced" records_are ' a 2 b 2 c 3' there

    { header print '' && printf ' d\n 4\n e\n 5\n' && echo DATA=END; } >in
    check "-a behind all others" mdb_load -a there <in
    { header print '' && printf ' f\n 6\n ba\n 5\n' && echo DATA=END; } >in
    check "-a out of order" status 1 mdb_load -a there <in
    check "-a -N out of order" status 1 mdb_load -a -N there <in
    { header print '' && printf ' e\n 7\n f\n 7\n' && echo DATA=END; } >in
    check "-a -N with a key that is there" mdb_load -a -N there <in
    check "and nothing else" records_are ' a 2 b 2 c 3 d 4 e 5 f 7' there
    { header print dups dupsort && numbered 500 key 'v&' && numbered 500 'l&' w && echo DATA=END; } >in
    check "-a with duplicates" mdb_load -a there <in
    mdb_dump -p -s dups there >out
    check "all of them" [ "$(grep -c '^ ' out)" -eq 2000 ]
    { header print dups dupsort && printf ' l500\n x\n l501\n a\n l501\n b\n' && echo DATA=END; } >in
    check "-a goes on with the last key" mdb_load -a there <in
    { header print dups dupsort && printf ' l501\n aa\n' && echo DATA=END; } >in
    check "-a with a duplicate out of order" status 1 mdb_load -a there <in

    { header print dups && printf ' l600\n a\n' && echo DATA=END; } >in
    check "less flags than the database has" mdb_load there <in
    { header print '' dupsort && printf ' a\n 3\n' && echo DATA=END; } >in
    check "other flags than the main database has" status 1 mdb_load there <in
    check "do not change it" [ "$(mdb_dump there | grep -c dupsort)" -eq 0 ]
    { header print dups dupsort dupfixed && printf ' a\n 3\n' && echo DATA=END; } >in
    check "other flags than a named database has" status 1 mdb_load there <in

    { header print one && printf ' a\n 1\n' && echo DATA=END
      header print '' && printf ' z\n 1\n' && echo DATA=END
      header print three && printf ' a\n 1\n' && echo DATA=END; } >in
    fresh there
    check "sections without a name between others" mdb_load -s two there <in
    check "go where -s says" [ "$(mdb_dump -l there | tr '\n' ' ')" = 'one three two ' ]
    fresh there
    check "or to the main database" mdb_load there <in
    check "which is not the one before" [ "$(mdb_dump -p there | grep -x -A1 ' z' | tr -d '\n')" = ' z 1' ]
}

test_map_growth()
{
    fresh there
    map_size=65536
    { header print big && numbered 2000 'k&' "$(spelled 1000 v)" && echo DATA=END; } >in
    map_size=4194304
    check "a map that is too small" mdb_load there <in
    mdb_dump -p -s big there >out
    grep '^ ' in >records
    grep '^ ' out >out_records
    check "all records are there" cmp records out_records
    check "it is sound after growing" mdb_check there
    check "the map has grown" [ "$(mdb_stat -e there | sed -n 's/.*Map size: //p')" -ge 2000000 ]
    { printf 'one\n' && spelled 6000000 x && printf '\n'; } >in
    check "one record that is larger than the map" mdb_load -T -s huge there <in
    check "is stored" [ "$(mdb_dump -p -s huge there | wc -c)" -ge 6000000 ]
}

# ==== Malformed input ====================================================

# rejects LINE TEXT: the input `bad` is refused with this line number and text in the message, and changes nothing.
rejects()
{
    mdb_load guarded <bad 2>words && return 1
    cat words
    grep -q "line $1: .*$2" words || return 1
    grep -q 'no record was stored' words || return 1
    mdb_dump -p guarded >again && cmp again guarded.dump && [ -z "$(mdb_dump -l guarded)" ]
}

# malformed WHAT LINE TEXT INPUT: INPUT is a printf format.
malformed()
{
    printf "$4" >bad
    check "malformed: $1" rejects "$2" "$3"
}

test_malformed()
{
    fresh guarded
    { header print '' && printf ' kept\n as it is\nDATA=END\n'; } | mdb_load guarded
    mdb_dump -p guarded >guarded.dump
    hex='VERSION=3\nformat=bytevalue\nHEADER=END\n'
    text='VERSION=3\nformat=print\nHEADER=END\n'

    malformed 'empty input' 0 'unexpected end' ''
    malformed 'header without end' 2 'unexpected end' 'VERSION=3\nformat=print\n'
    malformed 'no equals sign' 2 'unexpected format' 'VERSION=3\nnonsense\nHEADER=END\nDATA=END\n'
    malformed 'empty header line' 2 'unexpected format' 'VERSION=3\n\nHEADER=END\nDATA=END\n'
    malformed 'unknown header line' 2 'unrecognized keyword: flavour' 'VERSION=3\nflavour=3\nHEADER=END\nDATA=END\n'
    malformed 'header line with blanks' 2 'unrecognized' 'VERSION=3\n dupsort=1\nHEADER=END\nDATA=END\n'
    malformed 'header line twice' 3 'second line for mapsize' 'VERSION=3\nmapsize=99999\nmapsize=99999\nHEADER=END\n'
    malformed 'flag twice' 3 'second line for dupsort' 'VERSION=3\ndupsort=1\ndupsort=1\nHEADER=END\nDATA=END\n'
    malformed 'version of the future' 1 'VERSION' 'VERSION=4\nHEADER=END\nDATA=END\n'
    malformed 'version that is no number' 1 'VERSION' 'VERSION=x\nHEADER=END\nDATA=END\n'
    malformed 'unknown format' 2 'FORMAT' 'VERSION=3\nformat=base64\nHEADER=END\nDATA=END\n'
    malformed 'unknown type' 2 'type' 'VERSION=3\ntype=hash\nHEADER=END\nDATA=END\n'
    malformed 'map size that is no number' 2 'mapsize' 'VERSION=3\nmapsize=1x\nHEADER=END\nDATA=END\n'
    malformed 'negative map size' 2 'mapsize' 'VERSION=3\nmapsize=-1\nHEADER=END\nDATA=END\n'
    malformed 'map size beyond all numbers' 2 'mapsize' 'mapaddr=0x0\nmapsize=99999999999999999999999\nHEADER=END\n'
    malformed 'no readers' 1 'maxreaders' 'maxreaders=0\nHEADER=END\nDATA=END\n'
    malformed 'odd page size' 1 'db_pagesize' 'db_pagesize=4097\nHEADER=END\nDATA=END\n'
    malformed 'bad address' 1 'mapaddr' 'mapaddr=nowhere\nHEADER=END\nDATA=END\n'
    malformed 'bad flag' 1 'dupsort' 'dupsort=yes\nHEADER=END\nDATA=END\n'
    malformed 'empty name' 1 'empty' 'database=\nHEADER=END\nDATA=END\n'
    malformed 'NUL in a name' 1 'NUL' 'database=a\000b\nHEADER=END\nDATA=END\n'
    malformed 'NUL in a hex name' 1 'NUL' 'database_hex=6100\nHEADER=END\nDATA=END\n'
    malformed 'odd digits in a hex name' 1 'odd' 'database_hex=616\nHEADER=END\nDATA=END\n'

    malformed 'odd digits in a key' 6 'odd' "${hex} 61\n 62\n 616\n 62\nDATA=END\n"
    malformed 'odd digits in data' 5 'odd' "${hex} 61\n 6\nDATA=END\n"
    malformed 'no digit' 4 'hex digits at column 4' "${hex} 616g\n 62\nDATA=END\n"
    malformed 'blank among digits' 4 'hex digits at column 2' "${hex}  61 \n 62\nDATA=END\n"
    malformed 'blank behind digits' 5 'odd' "${hex} 61\n 62 \nDATA=END\n"
    malformed 'carriage return' 4 'odd' "${hex} 61\r\n 62\r\nDATA=END\n"
    malformed 'NUL among digits' 5 'hex digits' "${hex} 61\n 00\0000\nDATA=END\n"
    malformed 'backslash and no digits' 5 'column 3' "${text} a\n b\\\\x\nDATA=END\n"
    malformed 'backslash and one digit' 5 'column 3' "${text} a\n b\\\\4\nDATA=END\n"
    malformed 'backslash and one digit more' 5 'column 3' "${text} a\n b\\\\4g\nDATA=END\n"
    malformed 'backslash at the end' 4 'column 2' "${text} \\\\\n b\nDATA=END\n"
    malformed 'key without data' 5 'no data' "${text} a\nDATA=END\n"
    malformed 'key without data, later' 7 'no data' "${text} a\n b\n c\nDATA=END\n"
    malformed 'key and no more' 4 'no data' "${text} a\n"
    malformed 'no end' 5 'DATA=END' "${text} a\n b\n"
    malformed 'no end, no newline' 5 'DATA=END' "${text} a\n b"
    malformed 'half an end' 6 'neither' "${text} a\n b\nDATA=EN"
    malformed 'no blank before a key' 4 'neither' "${text}a\n b\nDATA=END\n"
    malformed 'no blank before data' 5 'neither' "${text} a\nb\nDATA=END\n"
    malformed 'empty line' 4 'neither' "${text}\n a\n b\nDATA=END\n"
    malformed 'wrong header of a named database' 3 'unrecognized' 'VERSION=3\ndatabase=new\nx=1\nHEADER=END\nDATA=END\n'
    malformed 'wrong record of a named database' 4 'neither' 'database=new\nHEADER=END\n 61\n62\nDATA=END\n'

    printf '%b a\n 1\nDATA=END\ngarbage\n' "$text" >bad
    check "garbage behind a section" status 1 mdb_load guarded <bad
    mdb_load guarded <bad 2>words
    check "has a line number" says 'line 7: unexpected format' words
    check "and what was stored is told" says '1 records were stored, up to line 6' words
    mdb_dump -p guarded >again
    check "the section is there" grep -qx ' a' again

    printf '%b \n 1\nDATA=END\n' "$text" >bad
    check "a key that the library refuses" status 1 mdb_load guarded <bad
    mdb_load guarded <bad 2>words
    check "is reported with its line" says 'record of line 4' words
    printf 'a\n' >bad
    check "odd number of plain lines" status 1 mdb_load -T guarded <bad
    printf 'a\n\\4\n' >bad
    check "bad plain line" status 1 mdb_load -T guarded <bad
    check "no final newline is needed" sh -c "printf '%b a\n 1\nDATA=END' '$text' | mdb_load guarded"
}

# A dump that was cut off anywhere but at its end is refused.
test_truncated()
{
    { header bytevalue cut dupsort && printf ' 61\n 62\n 61\n 6364\nDATA=END\n'; } >whole
    size=$(wc -c <whole)
    accepted=0
    cut=0
    while [ "$cut" -lt "$((size - 1))" ]; do
        fresh there
        head -c "$cut" whole | mdb_load there 2>/dev/null && accepted=$((accepted + 1))
        [ -z "$(mdb_dump -l there 2>/dev/null)" ] || accepted=$((accepted + 1))
        cut=$((cut + 7))
    done
    check "no truncated dump is accepted" [ "$accepted" -eq 0 ]
}

# An error after the first batch: that one stays, and the message says so.
test_batches()
{
    fresh there
    value=$(spelled 100000 v)
    { header print batches && numbered 250 'k&' "$value" && printf ' k999\nDATA=END\n'; } >in
    mdb_load there <in 2>words
    check "an error in the second batch" [ $? -eq 1 ]
    stored=$(sed -n 's/.*: \([0-9]*\) records were stored.*/\1/p' words)
    line=$(sed -n 's/.* up to line \([0-9]*\)$/\1/p' words)
    mdb_dump -p -s batches there >out
    check "the first batch is told" [ "${stored:-0}" -gt 0 ]
    check "the second is not there" [ "${stored:-0}" -lt 250 ]
    check "as many are there as was told" [ "$(grep -c '^ k' out)" -eq "${stored:-0}" ]
    check "the line fits" [ "$(head -n "${line:-0}" in | grep -c '^ k')" -eq "${stored:-0}" ]
}

# ==== mdb_stat ===========================================================

# The sum of the numbers in stdin, one a line.
added()
{
    echo $(($(paste -s -d+ - | sed 's/^$/0/')))
}

free_list_text()
{
    mdb_stat -fff there | sed '/Main DB/,$d' >out
    pages=$(sed -n 's/.*Free pages: //p' out)
    listed=$(sed -n 's/^ *Transaction [0-9]*, \([0-9]*\) pages, maxspan [0-9]*$/\1/p' out | added)
    spans=$(sed -n 's/^ \{5,13\}[0-9]\{1,9\}$/1/p; s/^ *[0-9]*\[\([0-9]*\)\]$/\1/p' out | added)
    check "there are free pages" [ "${pages:-0}" -gt 0 ]
    check "free pages of transactions add up" [ "$listed" -eq "${pages:-0}" ]
    check "free pages in spans add up" [ "$spans" -eq "${pages:-0}" ]
}

test_stat()
{
    fresh there
    { header print '' && echo DATA=END; } | mdb_load there
    cat >expected <<END
Environment Info
  Map address: (nil)
  Map size: $map_size
  Page size: $page_size
  Max pages: $((map_size / page_size))
  Number of pages used: 2
  Last transaction ID: 0
  Max readers: 126
  Number of readers used: 0
Reader Table Status
(no active readers)
  0 stale readers cleared.
(no active readers)
Freelist Status
  Tree depth: 0
  Branch pages: 0
  Leaf pages: 0
  Overflow pages: 0
  Entries: 0
  Free pages: 0
Status of Main DB
  Tree depth: 0
  Branch pages: 0
  Leaf pages: 0
  Overflow pages: 0
  Entries: 0
END
    mdb_stat -e -rr -fff -a there >out
    check "everything about an empty environment" diff expected out
    mdb_stat there >out
    tail -n 6 expected >main
    check "the main database" diff main out
    mdb_stat -r there >out
    check "readers alone" [ "$(wc -l <out)" -eq 2 ]

    { header print sub && numbered 300 'k&' "$(spelled $((2 * page_size)) v)" && echo DATA=END; } | mdb_load there
    mdb_stat -s sub there >out
    check "a named database" says 'Status of sub' out
    check "its entries" grep -qx '  Entries: 300' out
    check "its overflow pages" grep -qx '  Overflow pages: 900' out
    check "-a and -s exclude each other" status 1 mdb_stat -a -s sub there
    check "a database that is missing" status 1 mdb_stat -s missing there
    mdb_stat -a "kinds_env.$page_size" >out
    check "all databases" [ "$(grep -c '^Status of ' out)" -eq 11 ]
    check "-L" mdb_stat -L there
    check "-v of a state that is there" mdb_stat -v there
    mdb_drop -s sub there
    free_list_text
}

# holder_start NAME: a dump that nobody reads holds a read transaction, until holder_end.
holder_start()
{
    rm -f "$work/held"
    mkfifo "$work/held"
    mdb_dump -a "$1" >"$work/held" 2>"$work/holder.words" &
    holder=$!
    exec 3<"$work/held"
    head -c 1 <&3 >/dev/null
}

holder_end()
{
    kill "-$1" "$holder"
    wait "$holder" 2>/dev/null
    holder_status=$?
    exec 3<&-
}

test_readers()
{
    holder_start "kinds_env.$page_size"
    mdb_stat -e -r "kinds_env.$page_size" >out
    check "a live reader is listed" grep -q "^ *$holder " out
    check "and counted" says 'Number of readers used: 1' out
    mdb_stat -rr "kinds_env.$page_size" >out
    check "a live reader is not cleared" says '  0 stale readers cleared.' out
    holder_end TERM
    check "a signal ends a dump with status 1" [ "$holder_status" -eq 1 ]
    check "and a message" says 'mdb_dump: stopped by a signal' "$work/holder.words"
    mdb_stat -r "kinds_env.$page_size" >out
    check "and leaves no reader behind" says '(no active readers)' out
    mkfifo other
    mdb_dump -a "kinds_env.$page_size" >other 2>/dev/null &
    survivor=$!
    exec 4<other
    head -c 1 <&4 >/dev/null
    holder_start "kinds_env.$page_size"
    holder_end KILL
    mdb_stat -rr "kinds_env.$page_size" >out
    kill -TERM $survivor
    wait $survivor
    exec 4<&-
    check "a dead reader is cleared" says '  1 stale readers cleared.' out
    check "and gone" [ "$(tail -n 2 out | grep -c "$holder")" -eq 0 ]
    check "the live one is not" [ "$(tail -n 1 out | grep -c "$survivor")" -eq 1 ]
}

# ==== mdb_copy ===========================================================

# nothing_but NAME...: the directory `target` has these files.
nothing_but()
{
    [ "$(ls -A target)" = "$(printf '%s\n' "$@")" ] || { ls -A target; return 1; }
}

copies()
{
    fresh target
    mdb_copy $1 "kinds_env.$page_size" target && nothing_but data.mdb && mdb_dump -a target >out &&
        cmp out "kinds.$page_size"
}

test_copy()
{
    check "a copy" copies ''
    check "a copy is sound" mdb_check target
    check "a compact copy" copies -c
    check "a compact copy is sound" mdb_check target
    fresh target
    (umask 027 && mdb_copy "kinds_env.$page_size" target)
    check "the mode follows the umask" [ "$(stat -c %a target/data.mdb)" = 640 ]
    echo mine >target/data.mdb
    check "a target that exists" status 1 mdb_copy "kinds_env.$page_size" target
    mdb_copy "kinds_env.$page_size" target 2>words
    check "is told" says 'error 17 ' words
    check "and not touched" [ "$(cat target/data.mdb)" = mine ]
    check "and nothing is left beside it" nothing_but data.mdb
    ln -sf missing target/data.mdb
    check "a dangling link is a target that exists" status 1 mdb_copy "kinds_env.$page_size" target
    check "a directory that is missing" status 1 mdb_copy "kinds_env.$page_size" missing
    check "a source that is missing" status 1 mdb_copy missing target

    mdb_copy "kinds_env.$page_size" >file
    check "a copy to stdout" mdb_dump -a -n -f out file
    check "is the same" cmp out "kinds.$page_size"
    fresh target
    check "-n" mdb_copy -c -n file target/new
    check "-n makes a file" nothing_but new
    check "-n of what exists" status 1 mdb_copy -n file target/new
    fresh there target
    { header print '' && echo DATA=END; } | mdb_load there
    check "a copy of nothing" mdb_copy there target
    check "a compact copy of nothing" status 0 sh -c 'mdb_copy -c there >file && mdb_stat -n file'
    rm -f file-lock
}

# A limit to file sizes, in units of 512 bytes, makes the copy fail half-way.
test_copy_fails()
{
    fresh target
    check "a write that fails" status 1 sh -c 'trap "" XFSZ; ulimit -f 16; mdb_copy "$1" target' sh \
        "kinds_env.$page_size"
    check "leaves nothing" nothing_but
    if [ -c /dev/full ]; then
        check "a full disk is noticed" status 1 sh -c 'mdb_copy "$1" >/dev/full' sh "kinds_env.$page_size"
    fi
    mdb_copy "big_env" 2>words | head -c 1 >/dev/null
    check "a closed pipe is told" says 'mdb_copy: stopped by a signal' words

    mkfifo pipe
    mdb_copy big_env >pipe 2>words &
    copier=$!
    exec 3<pipe
    head -c 1 <&3 >/dev/null
    kill -TERM $copier
    wait $copier
    check "a signal ends a copy to stdout with status 1" [ $? -eq 1 ]
    exec 3<&-
    check "and a message" says 'mdb_copy: stopped by a signal' words
    mdb_stat -r big_env >out
    check "and leaves no reader behind" says '(no active readers)' out
}

# A signal while a copy grows: it is complete afterwards, or there is nothing.
test_copy_stops()
{
    sound=0
    round=0
    while [ $round -lt 5 ]; do
        fresh target
        mdb_copy big_env target 2>/dev/null &
        copier=$!
        while kill -0 $copier 2>/dev/null && [ -z "$(ls -A target)" ]; do :; done
        kill -HUP $copier 2>/dev/null
        wait $copier
        ended=$?
        if [ $ended -eq 1 ] && nothing_but; then
            sound=$((sound + 1))
        elif [ $ended -eq 0 ] && nothing_but data.mdb && [ "$(wc -c <target/data.mdb)" -gt 1000000 ]; then
            sound=$((sound + 1))
        fi
        round=$((round + 1))
    done
    check "a copy is complete or not there" [ $sound -eq $round ]
}

# ==== mdb_drop ===========================================================

test_drop()
{
    fresh there
    mdb_load there <"kinds.$page_size"
    check "-s" mdb_drop -s 'b duplicates' there
    mdb_stat -s 'b duplicates' there >out
    check "empties it" grep -qx '  Entries: 0' out
    check "and keeps its flags" [ "$(mdb_dump -s 'b duplicates' there | grep -cx dupsort=1)" -eq 1 ]
    check "-d -s" mdb_drop -d -s 'b duplicates' there
    check "deletes it" status 1 mdb_stat -s 'b duplicates' there
    check "a database that is missing" status 1 mdb_drop -s missing there
    check "the others are there" [ "$(mdb_dump -l there | wc -l)" -eq 9 ]
    check "the main database" mdb_drop there
    check "and all others with it" [ -z "$(mdb_dump -l there 2>/dev/null)" ]
    mdb_stat there >out
    check "it is empty" grep -qx '  Entries: 0' out
    check "it is sound" mdb_check there
    fresh there
    check "an environment that is missing" status 1 mdb_drop there
    check "is not created" [ -z "$(ls -A there)" ]
    mdb_copy "kinds_env.$page_size" >file
    check "-n" mdb_drop -n -d -s 'd integers' file
    check "-n took it away" status 1 mdb_stat -n -s 'd integers' file
}

# ==== What all have in common ============================================

test_common()
{
    for tool in mdb_stat mdb_copy mdb_dump mdb_load mdb_drop; do
        $tool -V >out
        check "$tool -V" grep -q 'LMDB' out
        check "$tool without operands" status 1 $tool
        check "$tool with a wrong option" status 1 $tool -Z there
        check "$tool of what is missing" status 1 $tool -s x missing </dev/null
        $tool 2>words
        check "$tool tells its usage" says "usage: $tool [-V] [-q] " words
        ln -sf "$tools/$tool" "./d$tool"
        ./d$tool 2>words
        check "d$tool knows its name" says "usage: d$tool " words
    done
    mdb_stat missing 2>words
    check "errors name function, code and file" says 'mdb_stat: mdb_env_open failed, error 2 ' words
    check "the file too" says '(missing)' words
}

# A signal while input is awaited.
test_load_stops()
{
    fresh there
    rm -f pipe
    mkfifo pipe
    mdb_load there <pipe 2>words &
    loader=$!
    exec 3>pipe
    { header print one && printf ' a\n 1\nDATA=END\n' && header print two && printf ' a\n 1\n'; } >&3
    while [ -z "$(mdb_dump -l there 2>/dev/null)" ] && kill -0 $loader; do :; done
    kill -TERM $loader
    wait $loader
    check "a signal ends a load with status 1" [ $? -eq 1 ]
    exec 3>&-
    check "and a message" says 'mdb_load: 1 records were stored' words
    check "the first section is there, the second is not" [ "$(mdb_dump -l there)" = one ]
}

# on_terminal COMMAND: what it writes to stderr, a terminal; stdout is none.
on_terminal()
{
    script -q -e -c "$1 >/dev/null" /dev/null </dev/null
}

test_progress()
{
    if ! script -q -e -c true /dev/null </dev/null >/dev/null 2>&1; then
        echo "skipped: progress on a terminal (no working script command)"
        return
    fi
    fresh target there
    on_terminal "mdb_dump -a big_env" >out
    check "mdb_dump shows progress" says ' records' out
    on_terminal "mdb_copy big_env" >out
    check "mdb_copy shows progress" says ' bytes' out
    on_terminal "mdb_load -f in there" >out
    check "mdb_load shows progress" says ' records' out
    on_terminal "mdb_stat -f freed_env" >out
    check "mdb_stat shows progress" says ' free-list records' out
    for command in 'mdb_dump -q -a big_env' 'mdb_copy -q big_env' 'mdb_load -q -f in there' \
        'mdb_stat -q -f freed_env'; do
        on_terminal "$command" >out
        check "silent: $command" silent out
    done
    script -q -e -c 'mdb_stat -f freed_env' /dev/null </dev/null >out
    check "no progress among the output on a terminal" [ "$(grep -c 'free-list' out)" -eq 0 ]
    mdb_dump -a big_env 2>words >/dev/null
    check "no progress without a terminal" silent words
}

# ==== With LMDB's own tools ==============================================

# Runs both tools and compares what they print to stdout, and the exit status unless $1 says otherwise.
same()
{
    compared=$1
    tool=$2
    shift 2
    "$tool" "$@" >ours.out 2>ours.words
    ours=$?
    "/usr/bin/$tool" "$@" >theirs.out 2>theirs.words
    theirs=$?
    cmp ours.out theirs.out || { diff ours.out theirs.out; return 1; }
    [ "$compared" = text ] || [ $ours -eq $theirs ] || { echo "status $ours, $theirs"; return 1; }
}

# mdb_stat -r alone is status 1 in LMDB 0.9.24, though nothing failed.
compare_environment()
{
    for options in '' -e -f -ff -fff -a '-ea -rr -fff' '-r -s d' '-fr' '-s missing' '-s d -s h' '-a -s d' '-Z'; do
        check "mdb_stat $options as LMDB's" same all mdb_stat $1 $options "$2"
    done
    for options in -r -rr -er; do
        check "mdb_stat $options as LMDB's" same text mdb_stat $1 $options "$2"
    done
    for options in '' -a -l -la '-s missing' '-l -s d' '-a -s d'; do
        check "mdb_dump $options as LMDB's" same all mdb_dump $1 $options "$2"
    done
}

# copies_dump OPTIONS ENVIRONMENT: the copies of each hold the same, read by the other. Their layout may differ.
copies_dump()
{
    mdb_dump -q $1 "$2" >expected
    for option in '' -c; do
        mdb_copy $option "$2" >ours.copy && /usr/bin/mdb_copy $option "$2" >theirs.copy &&
            /usr/bin/mdb_dump $1 -n ours.copy >out && cmp out expected &&
            mdb_dump -q $1 -n theirs.copy >out && cmp out expected || return 1
    done
}

# LMDB's printable dumps show a backslash as it is. Otherwise they are the same.
same_printable()
{
    mdb_dump -p "$@" | sed '/^ /s/\\5c/\\/g' >ours.out
    /usr/bin/mdb_dump -p "$@" >theirs.out
    cmp ours.out theirs.out
}

# Dumps of each, loaded by the other.
exchange()
{
    fresh there && mdb_dump $1 "$2" >ours.out && /usr/bin/mdb_load there <ours.out && mdb_dump $1 there >again &&
        { sed '/^db_pagesize/d' ours.out && echo; } >one && { sed '/^db_pagesize/d' again && echo; } >two &&
        cmp one two && fresh there && /usr/bin/mdb_dump $1 "$2" >theirs.out && mdb_load there <theirs.out &&
        mdb_dump $1 there >again && cmp theirs.out again
}

# Malformed dumps and odd ones that both take or refuse alike.
same_load()
{
    printf "$1" >in
    fresh ours_env theirs_env
    mdb_load $2 ours_env <in
    ours=$?
    /usr/bin/mdb_load $2 theirs_env <in
    theirs=$?
    [ $ours -eq $theirs ] || { echo "status $ours, $theirs"; return 1; }
    for name in ours theirs; do
        { mdb_dump -p ${name}_env; mdb_dump -q -p -a ${name}_env; } >$name.out 2>$name.words
    done
    cmp ours.out theirs.out
}

compare_loads()
{
    text='VERSION=3\nformat=print\n'
    end='DATA=END\n'
    for input in "${text}HEADER=END\n a\n b\nDATA=END\n" 'HEADER=END\n 61\n 62\nDATA=END\n' \
        "${text}database=x y\nmapsize=2097152\nHEADER=END\n a\n b\n b\n \nDATA=END\n" \
        "${text}database=x\ndupsort=1\nHEADER=END\n a\n b\n a\n c\n${end}${text}database=y\nHEADER=END\n${end}" \
        "${text}dupsort=1\nHEADER=END\n a\n b\n a\n c\nDATA=END\n" "${text}HEADER=END\n a\nDATA=END\n" \
        "${text}HEADER=END\n a\n \\\\4\nDATA=END\n" "${text}HEADER=END\n \n b\nDATA=END\n" \
        "${text}HEADER=END\n a\n \\\\41\\\\00\nDATA=END\n" "${text}HEADER=END\n a\nb\nDATA=END\n"; do
        check "mdb_load as LMDB's of '$input'" same_load "$input" ''
        check "mdb_load -N as LMDB's of '$input'" same_load "$input" -N
        check "mdb_load -s as LMDB's of '$input'" same_load "$input" '-s name'
    done
    check "mdb_load -T as LMDB's" same_load 'a\nb\nc\n\\41\n' -T
    check "mdb_load -T -s as LMDB's" same_load 'a\nb\nc\n' '-T -s x'
    check "mdb_load -T of an odd line as LMDB's" same_load 'a\n' -T
    check "mdb_load -T of nothing as LMDB's" same_load '' -T
}

compare_all()
{
    for page_size in $page_sizes; do
        for kind in kinds awkward main_flags; do
            compare_environment '' ${kind}_env.$page_size
        done
        check "copies of all kinds" copies_dump -a kinds_env.$page_size
        check "copies of the main database" copies_dump '' awkward_env.$page_size
        # LMDB's mdb_load always makes pages of the system's size, where keys may be too long for a smaller one.
        check "dumps of all kinds go both ways" exchange -a kinds_env.$page_size
        check "dumps of the main database go both ways" exchange '' awkward_env.$page_size
        check "dumps of a main database with flags go both ways" exchange '' main_flags_env.$page_size
        check "printable dumps are LMDB's" same_printable -a kinds_env.$page_size
        check "printable dumps of the main database are LMDB's" same_printable awkward_env.$page_size
        mdb_dump -q -p -a kinds_env.$page_size >in
        fresh there
        /usr/bin/mdb_load there <in 2>/dev/null
        mdb_dump -a there | sed '/^db_pagesize/d' >one
        sed '/^db_pagesize/d' kinds.$page_size >two
        check "LMDB loads printable dumps" cmp one two
    done
    page_size=${MDB_TEST_PAGESIZE:-4096}
    fresh emptied
    { header print '' && printf ' a\n b\nDATA=END\n'; } | mdb_load emptied
    mdb_drop emptied
    compare_environment '' emptied
    compare_environment '' freed_env
    { header print '' && printf ' named\n not\nDATA=END\n'; } | mdb_load freed_env
    compare_environment '' freed_env
    mdb_copy freed_env >file
    compare_environment -n file
    check "copies with free pages" copies_dump -a freed_env
    holder_start "kinds_env.$page_size"
    compare_environment '' "kinds_env.$page_size"
    holder_end TERM
    compare_environment '' missing
    compare_loads
}

test_dump_and_load
test_load_options
test_map_growth
test_malformed
test_truncated
test_batches
mv there big_env
test_stat
mv there freed_env
test_readers
test_copy
test_copy_fails
test_copy_stops
test_drop
test_common
test_load_stops
{ header print '' && numbered 100 'k&' v && echo DATA=END; } >in
test_progress
case $(/usr/bin/mdb_dump -V 2>/dev/null) in
"LMDB 0.9."*) compare_all ;;
*) echo "skipped: comparison with LMDB's own tools (lmdb-utils is not installed)" ;;
esac

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
