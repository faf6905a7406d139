/** @file dlmdb.h
 *  The same interface under the library's other name. */
#include "lmdb.h"
