kara lab run echo --experiments cli/experiments 2>err; echo $?; head -1 err; ls
An experiment whose kind of trial is not known is refused before anything is measured; nothing is written.
