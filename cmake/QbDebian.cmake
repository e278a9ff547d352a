# Run by cpack between installation and packing: what Debian wants otherwise than `cmake --install` puts it.
function(add_documents folder package)
  file(WRITE "${folder}/doc/${package}/copyright" "Copyright 2026 The qbench authors

License: Apache-2.0
 On Debian systems the text of the license is in /usr/share/common-licenses/Apache-2.0.
")
  file(WRITE "${folder}/doc/${package}/changelog" "qbench (${CPACK_PACKAGE_VERSION}) unstable; urgency=low

  * See the changelog of the source.

 -- ${CPACK_PACKAGE_CONTACT}  Thu, 01 Jan 2026 00:00:00 +0000
")
  execute_process(COMMAND gzip -9nf "${folder}/doc/${package}/changelog" COMMAND_ERROR_IS_FATAL ANY)
  file(WRITE "${folder}/lintian/overrides/${package}" "${package}: maintscript-calls-ldconfig *\n")
endfunction()

set(share "${CPACK_TEMPORARY_DIRECTORY}/Unspecified/usr/share")
file(GLOB pages "${share}/man/man1/*.1")
execute_process(COMMAND gzip -9nf ${pages} COMMAND_ERROR_IS_FATAL ANY)
add_documents("${share}" qbench)
if(EXISTS "${CPACK_TEMPORARY_DIRECTORY}/mpi")
  add_documents("${CPACK_TEMPORARY_DIRECTORY}/mpi/usr/share" qbench-mpi)
endif()
# The Python module works without a dependency on Python, one package holds program and library, and
# what static linking needs lies where this architecture has it.
file(APPEND "${share}/lintian/overrides/qbench" "qbench: python-package-missing-depends-on-python
qbench: package-name-doesnt-match-sonames *
qbench: link-to-shared-library-in-wrong-package *
qbench: pkg-config-multi-arch-wrong-dir *
qbench: pkg-config-unavailable-for-cross-compilation *
")
