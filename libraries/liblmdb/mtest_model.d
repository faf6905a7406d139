mtest_model.o: mtest_model.c mtest_history.h mtest.h lmdb.h
mtest_history.h:
mtest.h:
lmdb.h:
