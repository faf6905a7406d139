mtest_abi.o: mtest_abi.c lmdb.h dlmdb.h mtest.h
lmdb.h:
dlmdb.h:
mtest.h:
