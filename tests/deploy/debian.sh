#!/bin/bash
# debian.sh FOLDER SUITE PACKAGES [MIRROR]: a bare Debian in FOLDER/tree, with packages separated by commas.
#
# It is run as keep.sh is.  debootstrap mounts, and when it is killed leaves mounted: here it is for nobody else to see.
set -e
cd "$1"
umask 022
mkdir empty tree work root
# Twice as fast without flushing to disk at every package: that is done once at the end.
[ $$ = 1 ] && mount -t overlay -o lowerdir=empty,upperdir=tree,workdir=work,volatile overlay root 2>/dev/null ||
	{ rmdir root; ln -s tree root; }
debootstrap --variant=minbase --include="$3" "$2" "$1/root" ${4:+"$4"}
# Its PostgreSQL has another port if one of the host's has 5432 meanwhile.
sed -i 's/^port = .*/port = 5432/' root/etc/postgresql/*/main/postgresql.conf
rm -f root/var/cache/apt/archives/*.deb root/var/lib/apt/lists/*_Packages
sync --file-system tree
