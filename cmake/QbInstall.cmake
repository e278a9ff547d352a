# The program, and what it writes about itself: man pages and shell completions.
include(GNUInstallDirs)
install(TARGETS qbench RUNTIME)
install(CODE "
  set(prefix \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}\")
  set(program \"\${prefix}/${CMAKE_INSTALL_BINDIR}/qbench\")
  function(write_to folder name)
    file(MAKE_DIRECTORY \"\${folder}\")
    execute_process(COMMAND \"\${program}\" \${ARGN} OUTPUT_FILE \"\${folder}/\${name}\"
      COMMAND_ERROR_IS_FATAL ANY)
  endfunction()
  set(share \"\${prefix}/${CMAKE_INSTALL_DATADIR}\")
  write_to(\"\${share}/bash-completion/completions\" qbench completion bash)
  write_to(\"\${share}/zsh/site-functions\" _qbench completion zsh)
  write_to(\"\${share}/fish/vendor_completions.d\" qbench.fish completion fish)
  execute_process(COMMAND \"\${program}\" manual --quiet -o
    \"\${prefix}/${CMAKE_INSTALL_MANDIR}/man1\" COMMAND_ERROR_IS_FATAL ANY)
")
