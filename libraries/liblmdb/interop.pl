# Uses liblmdb through Perl's LMDB_File, for interop.sh: the same records, in a single file, as interop.php.
#
#     perl interop.pl write|verify FILE
#
# INTEROP_LIBRARY names the shared library that must be loaded. Ends with a line `N passed, M failed`.
use strict;
use warnings;
use Cwd qw(realpath);
use LMDB_File qw(:flags :cursor_op);

use constant RECORDS => 5000;

my ($passed, $failed) = (0, 0);

sub check
{
    my ($condition, $what) = @_;

    if ($condition) {
        $passed++;
    } else {
        $failed++;
        print "failed: $what\n";
    }
}

sub record_key { sprintf 'key-%05d', $_[0] }

# 7 to 3000 bytes, so that some values take pages of their own.
sub record_value { "value $_[0] " x (1 + $_[0] * 7 % 250) }

sub library_check
{
    my %mapped;

    open my $maps, '<', '/proc/self/maps' or die "maps: $!";
    while (<$maps>) {
        $mapped{$1} = 1 if m{(/\S*/liblmdb\S*)};
    }
    check(join(' ', sort keys %mapped) eq realpath($ENV{INTEROP_LIBRARY}), "library mapped: @{[keys %mapped]}");
}

# In an order that is not that of the keys.
sub records_write
{
    my ($env) = @_;
    my $txn = $env->BeginTxn();
    my $database = $txn->OpenDB();

    $database->put(record_key($_ * 7 % RECORDS), record_value($_ * 7 % RECORDS)) for 0 .. RECORDS - 1;
    $txn->commit();
    check(1, 'written');
}

sub records_verify
{
    my ($env) = @_;
    my $txn = $env->BeginTxn(MDB_RDONLY);
    my $database = $txn->OpenDB();
    my $cursor = $database->Cursor();
    my ($number, $different, $key, $value) = (0, 0);

    {
        local $LMDB_File::die_on_err = 0;
        while ($cursor->get($key, $value, MDB_NEXT) == 0) {
            $different++ if $key ne record_key($number) || $value ne record_value($number);
            $number++;
        }
    }
    check($number == RECORDS, "$number records");
    check($different == 0, "$different records differ");
    check($database->get(record_key(4321)) eq record_value(4321), 'lookup');
    undef $cursor;
    $txn->abort();
}

my ($mode, $path) = @ARGV;
my $env = LMDB::Env->new($path, { mapsize => 1 << 26, flags => MDB_NOSUBDIR });

if ($mode eq 'write') {
    records_write($env);
} else {
    records_verify($env);
}
library_check();
print "$passed passed, $failed failed\n";
exit($failed == 0 ? 0 : 1);
