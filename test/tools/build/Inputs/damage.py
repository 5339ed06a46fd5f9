"""damage.py PROG FOLDER: copies of a program that are cut short, changed, or point beyond themselves."""
import os
import struct
import sys

data = open(sys.argv[1], 'rb').read()
offset, length, _ = struct.unpack('<QQQ', data[-32:-8])
assert offset + length + 32 == len(data)


def fnv1a(text):
    value = 0xcbf29ce484222325
    for byte in text:
        value = (value ^ byte) * 0x100000001b3 & (1 << 64) - 1
    return value


def write(name, content):
    path = os.path.join(sys.argv[2], name)
    with open(path, 'wb') as file:
        file.write(content)
    os.chmod(path, 0o755)


def packed(image):
    return data[:offset] + image + struct.pack('<QQQ', offset, len(image), fnv1a(image)) + data[-8:]


write('short', data[:-100])
middle = offset + length // 2
write('changed', data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1:])
write('beyond', data[:-32] + struct.pack('<QQQ', offset + 8, length, 0) + data[-8:])
image = data[offset:offset + length]
assert image.count(b'"version":2') == 1
write('facts', packed(image.replace(b'"version":2', b'"version":7')))
