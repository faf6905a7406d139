#!/bin/bash
# Real programs with this library, and this library's files with LMDB's: needs Debian's lmdb-utils and python3-lmdb;
# uses php-cli with php-dba, liblmdb-file-perl and the tests of Python's lmdb module where they are to be had.
#
#     interop.sh [TESTS]        run where the library and the tools were built; TESTS: a directory with the module's
#                               *_test.py files
#
# Programs that are linked to liblmdb.so.0 run with LD_LIBRARY_PATH naming the current directory, or without it, and
# look themselves which library they got. Debian's own mdb_* tools contain LMDB, so they always are the other side.
# The last line is `N passed, M failed`.
set -u

source_directory=$(cd "$(dirname "$0")" && pwd)
build=$(pwd)
module_tests=${1:-}
export PYTHONDONTWRITEBYTECODE=1

ours=$(realpath -e "$build/liblmdb.so.0") || exit 1
theirs=$(realpath -e "$(/sbin/ldconfig -p | awk '/liblmdb\.so\.0 /{ print $NF; exit }')") || exit 1
python=/usr/bin/python3

for name in mdb_stat mdb_copy mdb_dump mdb_load mdb_check; do
    [ -x "$build/$name" ] || { echo "$build/$name is missing"; exit 1; }
done

work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM HUP

passed=0
failed=0

# with ours|theirs COMMAND...: run a dynamically linked program with that library.
with()
{
    local side=$1
    shift
    if [ "$side" = ours ]; then
        LD_LIBRARY_PATH=$build INTEROP_LIBRARY=$ours INTEROP_OTHER_LIBRARY=$theirs "$@"
    else
        INTEROP_LIBRARY=$theirs INTEROP_OTHER_LIBRARY=$ours "$@"
    fi
}

# tool ours|theirs NAME ARGUMENT...: run one of the mdb_* tools.
tool()
{
    local side=$1 name=$2
    shift 2
    if [ "$side" = ours ]; then "$build/$name" "$@"; else "/usr/bin/$name" "$@"; fi
}

other()
{
    if [ "$1" = ours ]; then echo theirs; else echo ours; fi
}

# check WHAT COMMAND...: one check, passed if the command succeeds.
check()
{
    local what=$1
    shift
    if "$@" >"$work/log" 2>&1; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "failed: $what"
        head -n 20 "$work/log" | cut -c 1-200
    fi
}

# counted WHAT COMMAND...: as many checks as the command's last line says.
counted()
{
    local what=$1 result
    shift
    "$@" >"$work/log" 2>&1
    local status=$?
    result=$(grep -E '^[0-9]+ passed, [0-9]+ failed$' "$work/log" | tail -n 1)
    if [[ $result =~ ^([0-9]+)\ passed,\ ([0-9]+) ]] && { [ $status -eq 0 ] || [ "${BASH_REMATCH[2]}" -gt 0 ]; }; then
        passed=$((passed + BASH_REMATCH[1]))
        failed=$((failed + BASH_REMATCH[2]))
    else
        failed=$((failed + 1))
    fi
    [ $status -eq 0 ] || { echo "failed: $what, exit status $status"; head -n 40 "$work/log" | cut -c 1-200; }
}

binding()
{
    local side=$1
    shift
    with "$side" "$python" "$source_directory/interop.py" "$@"
}

same_output()
{
    local first=$1 second=$2
    diff -q "$first" "$second" && [ -s "$first" ]
}

# Both libraries write in turn; both must find all that the other wrote. They free and reuse each other's pages.
turns()
{
    local environment=$work/turns-$1 side=$1 round name
    echo "== both libraries in turn, $side first"
    mkdir "$environment"
    for round in 0 1 2 3 4 5 6; do
        counted "round $round written by $side" binding "$side" write "$environment" $round
        counted "round $round, written by $side, read by ours" binding ours verify "$environment" $round
        counted "round $round, written by $side, read by theirs" binding theirs verify "$environment" $round
        for name in named main; do
            check "mdb_check after round $round by $side" tool ours mdb_check "$environment/$name"
        done
        side=$(other "$side")
    done
}

# Says what the tools of one side print about an environment, apart from the address of the map.
tool_text()
{
    local side=$1 output=$2 name=$3
    shift 3
    tool "$side" "$name" "$@" 2>&1 | grep -v 'Map address' >"$output"
}

# The tools of both sides must print the same about the same environment.
tools_agree()
{
    local environment=$1 arguments
    while read -r arguments; do
        # shellcheck disable=SC2086
        set -- $arguments
        tool_text ours "$work/ours.txt" "$@" "$environment"
        tool_text theirs "$work/theirs.txt" "$@" "$environment"
        check "$arguments prints the same" diff "$work/ours.txt" "$work/theirs.txt"
        check "$arguments prints something" test -s "$work/ours.txt"
    done <<'END'
mdb_stat
mdb_stat -a
mdb_stat -e
mdb_stat -f
mdb_stat -ff
mdb_stat -fff
mdb_stat -r
mdb_stat -efa
mdb_stat -s integer
mdb_dump
mdb_dump -p
mdb_dump -p -s a-plain
mdb_dump -a
mdb_dump -l
mdb_dump -s reverse
END
}

# A dump of one side, loaded by the other, holds the same. Copies too.
tools_exchange()
{
    local environment=$1 side=$2 target option
    local there
    there=$(other "$side")

    target=$work/exchange
    rm -rf "$target"
    mkdir "$target" "$target/plain" "$target/compact" "$target/loaded" "$target/loaded-main"
    tool "$side" mdb_dump -a "$environment/named" >"$target/named.dump"
    tool "$side" mdb_dump -p "$environment/main" >"$target/main.dump"
    check "mdb_load of $there takes $side's dump" \
        tool "$there" mdb_load -f "$target/named.dump" "$target/loaded"
    check "mdb_load of $there takes $side's printable dump" \
        tool "$there" mdb_load -f "$target/main.dump" "$target/loaded-main"
    tool theirs mdb_dump -a "$target/loaded" >"$target/named.again"
    tool theirs mdb_dump -p "$target/loaded-main" >"$target/main.again"
    check "what mdb_load of $there made" same_output "$target/named.dump" "$target/named.again"
    check "what mdb_load of $there made of a printable dump" same_output "$target/main.dump" "$target/main.again"
    for option in '' -c; do
        rm -rf "$target/copy"
        mkdir "$target/copy"
        # shellcheck disable=SC2086
        check "mdb_copy $option of $side" tool "$side" mdb_copy $option "$environment/named" "$target/copy"
        check "mdb_check of a copy $option by $side" tool ours mdb_check "$target/copy"
        tool "$there" mdb_dump -a "$target/copy" >"$target/copy.dump"
        check "contents of a copy $option by $side" same_output "$target/named.dump" "$target/copy.dump"
    done
}

tools()
{
    local side environment
    echo "== the tools of both sides"
    for side in ours theirs; do
        environment=$work/tools-$side
        mkdir "$environment"
        binding "$side" write "$environment" 0 >/dev/null
        binding "$side" write "$environment" 1 >/dev/null
        tools_agree "$environment/named"
        tools_exchange "$environment" ours
        tools_exchange "$environment" theirs
    done
}

# One process writes while another, with the other library, keeps reading the same environment.
live()
{
    local side
    echo "== both libraries at a time"
    for side in ours theirs; do
        mkdir "$work/live-$side"
        binding theirs write "$work/live-$side" 0 >/dev/null
        counted "written live by $side" binding "$side" live "$work/live-$side"
        check "mdb_check after live writing by $side" tool ours mdb_check "$work/live-$side/named"
    done
}

# Perl and PHP: each file that one of them writes with one library is read by both with both.
other_languages()
{
    local -A commands=()
    local writer reader writing reading file

    echo "== Perl and PHP"
    if perl -MLMDB_File -e 1 2>/dev/null; then
        commands[perl]="perl $source_directory/interop.pl"
    else
        echo "skipped: Perl's LMDB_File is not installed"
    fi
    if php -r 'exit(in_array("lmdb", dba_handlers()) ? 0 : 1);' >/dev/null 2>&1; then
        commands[php]="php $source_directory/interop.php"
    else
        echo "skipped: PHP with LMDB in dba is not installed"
    fi
    for writer in "${!commands[@]}"; do
        for writing in ours theirs; do
            file=$work/$writer-$writing.mdb
            # shellcheck disable=SC2086
            counted "written by $writer with $writing" with $writing ${commands[$writer]} write "$file"
            check "mdb_check of what $writer wrote with $writing" tool ours mdb_check -n "$file"
            for reader in "${!commands[@]}"; do
                for reading in ours theirs; do
                    # shellcheck disable=SC2086
                    counted "read by $reader with $reading, written by $writer with $writing" \
                        with $reading ${commands[$reader]} verify "$file"
                done
            done
        done
    done
}

# The tests of Python's lmdb module. One that fails with Debian's library too says nothing about ours. These open an
# environment twice in one process, which LMDB's documentation forbids and this library refuses:
refused_tests="
env_test.OpenTest.test_readonly_true_exist
env_test.OpenTest.test_subdir_true_exist_create
env_test.OpenTest.test_subdir_true_exist_nocreate
env_test.OtherMethodsTest.test_reader_check
"

module_suite()
{
    local side test word theirs_word count=0 both=0 refused=0
    local -A theirs_words=()

    echo "== the tests of Python's lmdb module"
    if [ -z "$module_tests" ]; then
        echo "skipped: the tests of Python's lmdb module are not here"
        return
    fi
    cp -r "$module_tests" "$work/tests"
    for side in theirs ours; do
        (cd "$work" && with $side "$python" "$source_directory/interop.py" suite tests "results-$side") \
            >"$work/suite-$side.log" 2>&1
        check "the module's tests end with $side" grep -q '^[1-9][0-9]* passed, 0 failed$' "$work/suite-$side.log"
    done
    while read -r test word; do
        theirs_words[$test]=$word
    done <"$work/results-theirs"
    while read -r test word; do
        theirs_word=${theirs_words[$test]:-none}
        case $word-$theirs_word in
        passed-*)
            passed=$((passed + 1))
            count=$((count + 1))
            ;;
        failed-failed)
            both=$((both + 1))
            ;;
        refused-*)
            check "$test is refused for a reason" grep -qx "$test" <<<"$refused_tests"
            refused=$((refused + 1))
            ;;
        failed-*)
            failed=$((failed + 1))
            echo "failed: $test of Python's lmdb module"
            grep -F -A 12 -x "$test" "$work/suite-ours.log"
            ;;
        esac
    done <"$work/results-ours"
    check "as many tests as with Debian's library" test "${#theirs_words[@]}" -eq "$(wc -l <"$work/results-ours")"
    echo "Python's lmdb module: $count of its tests pass; $refused open an environment twice, which is refused;" \
        "$both fail with Debian's library too"
}

turns ours
turns theirs
tools
live
other_languages
module_suite
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
