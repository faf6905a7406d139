mtest_check.o: mtest_check.c mtest.h lmdb.h mdb_format.h
mtest.h:
lmdb.h:
mdb_format.h:
