# cmake -DOUT=FILE -DNAME=SYMBOL "-DFILES=A;B" -P embed.cmake: the texts, one behind the other, as an array of C that ends in a 0.
set(hex "")
foreach(file IN LISTS FILES)
    file(READ ${file} text HEX)
    string(APPEND hex ${text})
endforeach()
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
string(REGEX REPLACE "((0x[0-9a-f][0-9a-f],){24})" "\\1\n    " bytes "${bytes}")
file(WRITE ${OUT} "extern const char ${NAME}[];\nconst char ${NAME}[] = {\n    ${bytes}0};\n")
