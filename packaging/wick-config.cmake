# SPDX-License-Identifier: Apache-2.0
# find_package(wick) gives the target wick::wick. All paths are relative to this file: the folder may be moved.
get_filename_component(_wick_prefix "${CMAKE_CURRENT_LIST_DIR}/@up@" ABSOLUTE)
if(NOT TARGET wick::wick)
  add_library(wick::wick SHARED IMPORTED)
  set_target_properties(wick::wick PROPERTIES
    IMPORTED_LOCATION "${_wick_prefix}/@libdir@/libwick.so.1"
    IMPORTED_SONAME "libwick.so.1"
    INTERFACE_INCLUDE_DIRECTORIES "${_wick_prefix}/@includedir@")
endif()
unset(_wick_prefix)
set(wick_FOUND TRUE)
