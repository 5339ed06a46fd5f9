"""damage.py PROG FOLDER: copies of a program that are cut short, changed in the program or in the runtime before it, or point beyond
themselves."""
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


def packed(image, begin=offset):
    text = data[:offset] + image + struct.pack('<QQ', begin, len(image))
    return text + struct.pack('<Q', fnv1a(text)) + data[-8:]


write('short', data[:-100])
middle = offset + length // 2
write('changed', data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1:])
text = data.index(b'continue prompts')  # of the runtime
write('runtime', data[:text] + bytes([data[text] ^ 1]) + data[text + 1:])
image = data[offset:offset + length]
write('beyond', packed(image, offset + 8))
assert image.count(b'"version":4') == 1
write('facts', packed(image.replace(b'"version":4', b'"version":7')))
