"""The fork server: a small program that starts what runs in sandboxes, and cleans up when its owner dies.

    owner (any size, threads, event loop) ══ socket: JSON messages, file descriptors ══ fork server (9 MB, one thread)
        create: fork ─▶ own mounts (overlay, staging) ─▶ bubblewrap ─▶ a shell that only waits: process 1
        enter:  fork ─▶ setns into the sandbox ─▶ fork ─▶ user, limits, no capabilities, seccomp ─▶ program
        stop:   fork ─▶ setns ─▶ kills the tree of one command, or everything, as seen in the sandbox's own /proc
        listen: fork ─▶ setns ─▶ a socket listening on the sandbox's loopback, handed to the owner
        judge:  fork ─▶ setns ─▶ fork ─▶ program, every execve of whose is held and looked at by the first (tracing)
        veil:   fork ─▶ setns ─▶ fork ─▶ a second room in the sandbox: other processes, folders hidden (veiled)
        deputy: fork ─▶ control group ─▶ does the forking for one sandbox from then on
        dump, restore: fork ─▶ own mounts ─▶ CRIU, for a snapshot of processes
        end of the owner (also by kill -9) ─▶ kill all ─▶ remove its folder and control groups ─▶ exit

It is a process of its own for three reasons. A fork of it costs half a millisecond, where the owner may be gigabytes.
It has one thread, so that what follows a fork is safe. And it outlives its owner by the moment cleaning up takes.

It imports nothing but a few modules of the standard library and is started with `python -I -S`, so no file of the
user's is read. After a child has entered a sandbox it must import nothing more: what it would read lies in the sandbox.
"""
