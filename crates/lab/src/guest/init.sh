#!/bin/busybox sh
# First process of the guest: runs the job, sends the result over the second serial port, ends.
/bin/busybox mkdir -p /proc /sys /dev /tmp /result/out /job /usr/bin
/bin/busybox --install -s /usr/bin
export PATH=/bin:/usr/bin HOME=/tmp
mount -t proc none /proc
mount -t sysfs none /sys
mount -t devtmpfs none /dev 2>/dev/null
mount -t bpf none /sys/fs/bpf 2>/dev/null
mount -t securityfs none /sys/kernel/security 2>/dev/null
echo 0 >/proc/sys/kernel/kptr_restrict
ln -s /result/out /out
ln -s /boot/config "/boot/config-$(uname -r)"
ip link set lo up 2>/dev/null
for module in /modules/*; do
    [ -e "$module" ] && { insmod "$module" || echo "$module cannot be loaded" >&2; }
done
mkdir -p /dev/net
[ -e /dev/net/tun ] || mknod /dev/net/tun c 10 200
cd /job
sh ./.command >/result/stdout 2>/result/stderr </dev/null
echo $? >/result/exit
stty -F /dev/ttyS1 raw
tar -C /result -cf /dev/ttyS1 .
poweroff -f
