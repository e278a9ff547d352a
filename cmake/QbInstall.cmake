# The program, and what it writes about itself: man pages and shell completions.
include(GNUInstallDirs)
install(TARGETS qbench RUNTIME)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} RENAME copyright) # where Debian looks
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

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME qbench)
set(CPACK_PACKAGE_VENDOR qbench)
set(CPACK_PACKAGE_CONTACT "The qbench authors <maintainers@qbench.invalid>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Quantization and calibration workbench for ONNX models")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS gnuplot-nox)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
include(CPack)
