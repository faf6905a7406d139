mtest_midl.o: mtest_midl.c mtest.h lmdb.h midl.c midl.h mdb_format.h
mtest.h:
lmdb.h:
midl.c:
midl.h:
mdb_format.h:
