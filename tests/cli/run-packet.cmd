kara run cli/count.s --input 'packet:eth / ipv4 dst=10.0.0.9 / udp dst=53'
Packets are written in layers.
