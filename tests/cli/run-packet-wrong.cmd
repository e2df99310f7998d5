kara run cli/count.s --input 'packet:eth / udp dst=70000'
What is wrong in a packet is named.
