<?php
/* Uses liblmdb through PHP's dba, for interop.sh: the same records, in a single file, as interop.pl.
 *
 *     php interop.php write|verify FILE
 *
 * INTEROP_LIBRARY names the shared library that must be loaded. Ends with a line `N passed, M failed`. */

const RECORDS = 5000;
const MAP_SIZE = 1 << 26;

$passed = $failed = 0;

function check(bool $condition, string $what): void
{
    global $passed, $failed;

    if ($condition) {
        $passed++;
    } else {
        $failed++;
        echo "failed: $what\n";
    }
}

function record_key(int $number): string
{
    return sprintf('key-%05d', $number);
}

/* 7 to 3000 bytes, so that some values take pages of their own. */
function record_value(int $number): string
{
    return str_repeat("value $number ", 1 + $number * 7 % 250);
}

function library_check(): void
{
    preg_match_all('~/\S*/liblmdb\S*~', file_get_contents('/proc/self/maps'), $found);
    $mapped = implode(' ', array_unique($found[0]));
    check($mapped === realpath(getenv('INTEROP_LIBRARY')), "library mapped: $mapped");
}

/* In an order that is not that of the keys. */
function records_write(string $path): void
{
    $database = dba_open($path, 'n', 'lmdb', 0644, MAP_SIZE);
    $written = 0;
    for ($i = 0; $i < RECORDS; $i++) {
        $number = $i * 7 % RECORDS;
        $written += dba_insert(record_key($number), record_value($number), $database) ? 1 : 0;
    }
    dba_close($database);
    check($written === RECORDS, "$written records written");
}

function records_verify(string $path): void
{
    $database = dba_open($path, 'r', 'lmdb', 0644, MAP_SIZE);
    $number = $different = 0;
    for ($key = dba_firstkey($database); $key !== false; $key = dba_nextkey($database)) {
        if ($key !== record_key($number) || dba_fetch($key, $database) !== record_value($number)) {
            $different++;
        }
        $number++;
    }
    check($number === RECORDS, "$number records");
    check($different === 0, "$different records differ");
    check(dba_fetch(record_key(4321), $database) === record_value(4321), 'lookup');
    check(!dba_exists(record_key(RECORDS), $database), 'an absent key');
    dba_close($database);
}

[, $mode, $path] = $argv;
if ($mode === 'write') {
    records_write($path);
} else {
    records_verify($path);
}
library_check();
echo "$passed passed, $failed failed\n";
exit($failed === 0 ? 0 : 1);
