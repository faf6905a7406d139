"""Uses liblmdb through Python's lmdb module, for interop.sh; the dynamic linker decides whose liblmdb that is.

    interop.py write DIRECTORY ROUND      make the changes of a round (0: create the environments)
    interop.py verify DIRECTORY ROUND     compare everything with what must be there after that round
    interop.py live DIRECTORY             share an environment with a process that uses INTEROP_OTHER_LIBRARY
    interop.py suite TESTS RESULTS        run the module's own tests, write one line for each into the file RESULTS

INTEROP_LIBRARY and INTEROP_OTHER_LIBRARY name shared libraries. The first must be the one, and the only one, that is
loaded. What an environment holds after a round follows from the round's number alone: all random numbers are seeded
with it. Each mode ends with a line `N passed, M failed`.
"""
import bisect
import errno
import os
import random
import struct
import subprocess
import sys
import unittest

import lmdb

MAP_SIZE = 1 << 28
RECORDS_AT_FIRST = 3000
CHANGES_PER_ROUND = 800
LIVE_ROUNDS = 6

passed = failed = 0


def check(condition, what):
    """Count a check; say which one failed."""
    global passed, failed
    if condition:
        passed += 1
    else:
        failed += 1
        print(f"failed: {what}")


def finish():
    print(f"{passed} passed, {failed} failed")
    sys.exit(0 if failed == 0 else 1)


def library_check():
    """Is the expected liblmdb mapped into this process, and no other?"""
    with open("/proc/self/maps", encoding="utf-8") as maps:
        mapped = {line.split()[-1] for line in maps if "/liblmdb" in line}
    expected = os.path.realpath(os.environ["INTEROP_LIBRARY"])
    check(mapped == {expected}, f"mapped are {sorted(mapped)}, expected {expected}")


# ==== What the environments must hold =========================================

def text_key(rng):
    return bytes(rng.choices(b"abcdefgh/.-", k=rng.randint(1, rng.choice((4, 20, 60, 511)))))


def any_bytes(rng, size):
    """All bytes but the backslash, which printable dumps of mdb_dump 0.9.24 do not escape."""
    return rng.randbytes(size).replace(b"\\", b"/")


def plain_value(rng):
    size = rng.choice((0, 1, 8, 30, 100, 300, rng.randint(1500, 2500), rng.randint(4000, 20000)))
    if rng.random() < 0.005:
        size = rng.randint(100000, 300000)
    return any_bytes(rng, size)


def integer(layout):
    size = struct.calcsize(layout)

    def order(value):
        return struct.unpack(layout, value)[0]

    def make(rng):
        return struct.pack(layout, rng.getrandbits(8 * rng.randint(1, size)))
    return order, make


def natural(value):
    return value


def from_the_end(value):
    return value[::-1]


integer_order, integer_key = integer("@Q")
small_integer_order, small_integer = integer("@I")


class Database:
    """How one database is opened, and what goes into it."""

    def __init__(self, name, key, value, order=natural, value_order=natural, **flags):
        self.name, self.key, self.value = name, key, value
        self.order, self.value_order, self.flags = order, value_order, flags
        self.duplicates = flags.get("dupsort", False)

    def open(self, env, create):
        return env.open_db(self.name, create=create, **self.flags)


DATABASES = [
    Database(b"a-plain", text_key, plain_value),
    Database(b"dup", lambda rng: b"key-%d" % int(rng.paretovariate(0.4) % 400),
             lambda rng: any_bytes(rng, rng.randint(1, rng.choice((8, 40, 400)))), dupsort=True),
    Database(b"dup fixed", lambda rng: b"key-%d" % int(rng.paretovariate(0.4) % 300),
             lambda rng: any_bytes(rng, 12), dupsort=True, dupfixed=True),
    Database(b"integer", integer_key, plain_value, order=integer_order, integerkey=True),
    Database(b"integer dup", lambda rng: text_key(rng)[:3], small_integer, value_order=small_integer_order,
             dupsort=True, dupfixed=True, integerdup=True),
    Database(b"reverse", text_key, plain_value, order=from_the_end, reverse_key=True),
]
MAIN_DATABASE = Database(None, text_key, plain_value)
ENVIRONMENTS = {"named": DATABASES, "main": [MAIN_DATABASE]}


class Model:
    """A database as a dict: key -> value, or key -> set of values."""

    def __init__(self, database):
        self.database = database
        self.records = {}

    def changes(self, round_number):
        """The round's operations: (delete?, key, value); value None deletes a key with all its values."""
        rng = random.Random(f"{self.database.name}-{round_number}")
        keys = sorted(self.records)
        count = CHANGES_PER_ROUND if round_number else RECORDS_AT_FIRST
        for _ in range(count):
            if keys and rng.random() < 0.5:
                key = rng.choice(keys)
                held = self.records.get(key)
                if self.database.duplicates and held and rng.random() < 0.8:
                    yield True, key, rng.choice(sorted(held))
                elif rng.random() < 0.7:
                    yield True, key, None
                else:
                    yield False, key, self.database.value(rng)
            else:
                yield False, self.database.key(rng), self.database.value(rng)

    def apply(self, delete, key, value):
        if not self.database.duplicates:
            if delete:
                self.records.pop(key, None)
            else:
                self.records[key] = value
            return
        held = self.records.setdefault(key, set())
        if not delete:
            held.add(value)
        elif value is None:
            held.clear()
        else:
            held.discard(value)
        if not held:
            del self.records[key]

    def play(self, round_number, transaction=None, handle=None):
        """Make the round's changes here, and in the database if there is one."""
        for delete, key, value in self.changes(round_number):
            self.apply(delete, key, value)
            if transaction is None:
                continue
            if delete:
                transaction.delete(key, value or b"", db=handle)
            else:
                transaction.put(key, value, db=handle)

    def keys(self):
        return sorted(self.records, key=self.database.order)

    def values(self, key):
        held = self.records[key]
        return sorted(held, key=self.database.value_order) if self.database.duplicates else [held]

    def pairs(self):
        return [(key, value) for key in self.keys() for value in self.values(key)]


def models_after(environment, round_number):
    models = [Model(database) for database in ENVIRONMENTS[environment]]
    for model in models:
        for number in range(round_number + 1):
            model.play(number)
    return models


def environment_open(directory, environment, **options):
    return lmdb.open(os.path.join(directory, environment), map_size=MAP_SIZE, max_dbs=len(DATABASES), **options)


# ==== Writing and verifying ===================================================

def write_environment(directory, environment, round_number):
    models = models_after(environment, round_number - 1)
    with environment_open(directory, environment) as env:
        handles = [model.database.open(env, round_number == 0) for model in models]
        with env.begin(write=True) as transaction:
            for model, handle in zip(models, handles):
                model.play(round_number, transaction, handle)
    check(True, f"round {round_number} of {environment}")


def verify_lookups(transaction, handle, model, name):
    rng = random.Random(0)
    keys = model.keys()
    present = rng.sample(keys, min(len(keys), 400))
    absent = [key for key in (model.database.key(rng) for _ in range(400)) if key not in model.records]
    check(all(transaction.get(key, db=handle) == model.values(key)[0] for key in present), f"{name}: keys present")
    check(all(transaction.get(key, db=handle) is None for key in absent), f"{name}: keys absent")
    orders = [model.database.order(key) for key in keys]
    cursor = transaction.cursor(db=handle)
    right = True
    for key in present + absent:
        place = bisect.bisect_left(orders, model.database.order(key))
        found = cursor.set_range(key)
        right = right and found == (place < len(keys)) and (not found or cursor.key() == keys[place])
    check(right, f"{name}: ranges")


def verify_duplicates(transaction, handle, model, name):
    cursor = transaction.cursor(db=handle)
    counts = places = True
    for key in model.keys():
        values = model.values(key)
        counts = counts and cursor.set_key(key) and cursor.count() == len(values)
        middle = values[len(values) // 2]
        places = places and cursor.set_key_dup(key, middle) and cursor.value() == middle
        places = places and list(cursor.iternext_dup()) == values[len(values) // 2:]
    check(counts, f"{name}: number of duplicates")
    check(places, f"{name}: places of duplicates")


def verify_environment(directory, environment, round_number):
    with environment_open(directory, environment, readonly=True) as env:
        for model in models_after(environment, round_number):
            name = f"{environment}/{model.database.name}"
            handle = model.database.open(env, False)
            pairs = model.pairs()
            with env.begin() as transaction:
                check(transaction.stat(handle)["entries"] == len(pairs), f"{name}: number of records")
                check(list(transaction.cursor(db=handle)) == pairs, f"{name}: forward")
                check(list(transaction.cursor(db=handle).iterprev()) == pairs[::-1], f"{name}: backward")
                verify_lookups(transaction, handle, model, name)
                if model.database.duplicates:
                    verify_duplicates(transaction, handle, model, name)


# ==== Two libraries in one environment at a time ==============================

def snapshot(transaction, handles):
    return [list(transaction.cursor(db=handle)) for handle in handles]


def live_reader(directory):
    """The other process: keep one snapshot over all rounds, and see each round in a new transaction."""
    library_check()
    with environment_open(directory, "named") as env:
        handles = [database.open(env, False) for database in DATABASES]
        with env.begin() as old:
            before = snapshot(old, handles)
            print("ready", flush=True)
            for line in sys.stdin:
                round_number = int(line)
                check(snapshot(old, handles) == before, f"old snapshot after round {round_number}")
                with env.begin() as new:
                    expected = [model.pairs() for model in models_after("named", round_number)]
                    check(snapshot(new, handles) == expected, f"new snapshot after round {round_number}")
                print(f"done {failed}", flush=True)
    sys.exit(0 if failed == 0 else 1)


def live(directory):
    """Write round after round while the process with the other library reads."""
    other = os.environ["INTEROP_OTHER_LIBRARY"]
    environment = dict(os.environ, INTEROP_LIBRARY=other, LD_LIBRARY_PATH=os.path.dirname(other))
    with environment_open(directory, "named") as env, subprocess.Popen(
            [sys.executable, __file__, "live-reader", directory], env=environment, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE) as reader:
        models = models_after("named", 0)
        handles = [model.database.open(env, False) for model in models]
        check(reader.stdout.readline() == "ready\n", "the other process reads")
        check(str(reader.pid) in env.readers(), "the other process is in the reader table")
        for round_number in range(1, LIVE_ROUNDS + 1):
            with env.begin(write=True) as transaction:
                for model, handle in zip(models, handles):
                    model.play(round_number, transaction, handle)
            reader.stdin.write(f"{round_number}\n")
            reader.stdin.flush()
            check(reader.stdout.readline() == "done 0\n", f"the other process after round {round_number}")
        reader.stdin.close()
        check(reader.wait() == 0, "the other process ends well")


# ==== The module's own tests ==================================================

class Recorder(unittest.TestResult):
    """Keeps one word for each test: passed, skipped, failed, or refused (ended by EBUSY)."""

    def __init__(self):
        super().__init__()
        self.words = {}

    def stopTest(self, test):
        super().stopTest(test)
        self.words.setdefault(test.id(), "passed")

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.words[test.id()] = "skipped"

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.words[test.id()] = "failed"

    def addError(self, test, err):
        super().addError(test, err)
        refused = isinstance(err[1], lmdb.Error) and str(err[1]).endswith(os.strerror(errno.EBUSY))
        self.words[test.id()] = "refused" if refused else "failed"

    def explain(self):
        for test, trace in self.failures + self.errors:
            print(f"{test.id()}\n{trace}")


def suite(tests, results):
    recorder = Recorder()
    unittest.defaultTestLoader.discover(tests, "*_test.py").run(recorder)
    recorder.explain()
    with open(results, "w", encoding="utf-8") as output:
        for test, word in sorted(recorder.words.items()):
            output.write(f"{test} {word}\n")
    check(recorder.testsRun > 0, "there are tests")


def main():
    mode, directory = sys.argv[1:3]
    if mode == "live-reader":
        live_reader(directory)
    elif mode == "live":
        live(directory)
    elif mode == "suite":
        suite(directory, sys.argv[3])
    else:
        step = {"write": write_environment, "verify": verify_environment}[mode]
        for environment in ENVIRONMENTS:
            step(directory, environment, int(sys.argv[3]))
    library_check()
    finish()


if __name__ == "__main__":
    main()
