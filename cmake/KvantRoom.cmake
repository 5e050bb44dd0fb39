# kvant_room(NAME SOURCES … ROOMS … LIBRARIES … TESTS … TEST_LABEL …)
#
# Declares one room: a static library `kvant_NAME` from SOURCES that may use only the named ROOMS
# and external LIBRARIES, and one GoogleTest binary `kvant_NAME_test` from TESTS.
find_package(Threads REQUIRED)
find_package(GTest REQUIRED)
include(GoogleTest)

add_library(kvant_flags INTERFACE)
target_include_directories(kvant_flags INTERFACE ${CMAKE_SOURCE_DIR})
target_compile_options(kvant_flags INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror
                       # FMA contraction would make results depend on the compiler's choice.
                       -ffp-contract=off)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC 12 reports false positives inside libstdc++ and Highway at -O2 and above.
  target_compile_options(kvant_flags INTERFACE -Wno-restrict -Wno-maybe-uninitialized
                         -Wno-array-bounds -Wno-stringop-overflow -Wno-stringop-overread
                         -Wno-psabi)
endif()
if(KVANT_SANITIZE)
  target_compile_options(kvant_flags INTERFACE -fsanitize=${KVANT_SANITIZE}
                         -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(kvant_flags INTERFACE -fsanitize=${KVANT_SANITIZE})
endif()
if(KVANT_FUZZ)
  target_compile_options(kvant_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()

function(kvant_room name)
  cmake_parse_arguments(ROOM "" "TEST_LABEL" "SOURCES;ROOMS;LIBRARIES;TESTS" ${ARGN})
  add_library(kvant_${name} STATIC ${ROOM_SOURCES})
  target_link_libraries(kvant_${name} PUBLIC kvant_flags Threads::Threads ${ROOM_LIBRARIES})
  foreach(room IN LISTS ROOM_ROOMS)
    target_link_libraries(kvant_${name} PUBLIC kvant_${room})
  endforeach()
  if(ROOM_TESTS AND NOT KVANT_FUZZ)
    add_executable(kvant_${name}_test ${ROOM_TESTS})
    target_link_libraries(kvant_${name}_test PRIVATE kvant_${name} GTest::gmock GTest::gtest_main)
    if(NOT ROOM_TEST_LABEL)
      set(ROOM_TEST_LABEL fast)
    endif()
    gtest_discover_tests(kvant_${name}_test TEST_PREFIX ${name}/ DISCOVERY_TIMEOUT 120
                         PROPERTIES LABELS ${ROOM_TEST_LABEL} TIMEOUT 600)
  endif()
endfunction()
