mtest_diff.o: mtest_diff.c mtest_history.h mtest.h lmdb.h
mtest_history.h:
mtest.h:
lmdb.h:
