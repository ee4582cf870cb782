#!/bin/bash
# keep.sh LOWER FOLDER: makes FOLDER/root, which begins as LOWER is, says "made", and keeps it until standard input ends.
#
# It is run in a mount and a process namespace of its own.  So what is mounted is mounted for it only, and when whoever
# started it is gone, however that came about, the mounts are gone too, and all processes that were started in there.
# Where there can be no namespaces, and this is not their first process, nothing is mounted: then it is a copy.
set -e
cd "$2"
umask 022
mkdir root upper work
overlay() { [ $$ = 1 ] && mount -t overlay -o "lowerdir=$1,upperdir=upper,workdir=work$2" overlay root 2>/dev/null; }
# Nobody needs it after a power failure, and without flushing to disk packages are installed several times faster.
overlay "$1" ,volatile || overlay "$1" || cp -a "$1/." root
echo made
# Ctrl-C is for the tests, which end in their own way and then close standard input.
trap '' INT TERM
cat > /dev/null
