import { describe, expect, it } from '@jest/globals';
import { type ContentPart, estimateTokens } from 'millrace';

/** The tokens of one part, without those of the message. */
const tokensOf = (part: ContentPart) => estimateTokens({ role: 'user', content: [part] }) - 4;
const imageOf = (bytes: Buffer, detail?: 'low' | 'high'): ContentPart => ({
  type: 'image_url',
  image_url: { url: `data:image/png;base64,${bytes.toString('base64')}`, ...(detail && { detail }) },
});
const fileOf = (mediaType: string, bytes: Buffer | string, filename?: string): ContentPart => ({
  type: 'file',
  file: {
    ...(filename !== undefined && { filename }),
    file_data: `${mediaType === '' ? '' : `data:${mediaType};base64,`}${Buffer.from(bytes).toString('base64')}`,
  },
});

function bytesOf(text: string, rest: readonly number[] = [], length = 64): Buffer {
  const bytes = Buffer.alloc(Math.max(length, text.length + rest.length));
  bytes.write(text, 0, 'latin1');
  bytes.set(rest, text.length);
  return bytes;
}

const u16be = (value: number) => [value >> 8, value & 255];
const u16le = (value: number) => [value & 255, value >> 8];
const png = (width: number, height: number) =>
  bytesOf('\x89PNG\r\n\x1a\n\0\0\0\rIHDR', [0, 0, ...u16be(width), 0, 0, ...u16be(height)]);
const gif = (width: number, height: number) => bytesOf('GIF89a', [...u16le(width), ...u16le(height)]);
const webp = (chunk: string, rest: readonly number[]) => bytesOf(`RIFF\0\0\0\0WEBP${chunk}`, rest);
const jpeg = (width: number, height: number, exif: number) =>
  Buffer.concat([
    Buffer.from([0xff, 0xd8, 0xff, 0xe1, ...u16be(exif + 2)]),
    Buffer.alloc(exif, 0xff),
    Buffer.from([0xff, 0xc4, 0, 4, 0, 0, 0xff, 0xc2, 0, 17, 8, ...u16be(height), ...u16be(width), 3]),
    Buffer.alloc(32),
  ]);

describe('the estimate of an image', () => {
  it.each<[what: string, bytes: Buffer, tokens: number]>([
    ['PNG of one tile', png(512, 512), 255],
    ['PNG of four tiles', png(1_024, 1_024), 765],
    ['tall PNG', png(2_048, 4_096), 1_105],
    ['PNG larger than any screen', png(65_535, 40_000), 85 + 170 * 6],
    ['narrow PNG', png(10, 60_000), 85 + 170 * 4],
    ['GIF', gif(600, 400), 425],
    ['WebP, lossy', webp('VP8 ', [0, 0, 0, 0, 0, 0, 0, 0x9d, 0x01, 0x2a, ...u16le(600), ...u16le(400)]), 425],
    ['WebP, lossless', webp('VP8L', [0, 0, 0, 0, 0x2f, 0x57, 0xc2, 0x63, 0]), 425],
    ['WebP, extended', webp('VP8X', [0, 0, 0, 0, 0, 0, 0, 0, 0x57, 2, 0, 0x8f, 1, 0]), 425],
    ['JPEG behind its EXIF data', jpeg(600, 400, 60_000), 425],
    ['JPEG without a frame', bytesOf('\xff\xd8', [0xff, 0xe1, 0xff, 0xff]), 1_100],
    ['picture of another kind', bytesOf('BM'), 1_100],
    ['PNG without a size', png(0, 0), 1_100],
    ['cut header', Buffer.from('\x89PNG', 'latin1'), 1_100],
  ])('M-23 follows the tiles of a %s', (_what, bytes, tokens) => {
    expect(tokensOf(imageOf(bytes))).toBe(tokens);
    expect(tokensOf(fileOf('image/png', bytes))).toBe(tokens);
  });

  it('M-23 counts 85 with detail low, and 1,100 for an address', () => {
    expect(tokensOf(imageOf(png(4_000, 4_000), 'low'))).toBe(85);
    expect(tokensOf({ type: 'image_url', image_url: { url: 'https://example.com/a.png' } })).toBe(1_100);
  });
});

describe('the estimate of a file', () => {
  const page = '<< /Type /Page /Parent 1 0 R >>\n';
  const filling = Buffer.alloc(2_000_000, 'x');
  it.each<[what: string, part: ContentPart, tokens: number]>([
    ['PDF by its pages', fileOf('application/pdf', `%PDF-1.7\n<< /Type /Pages >>\n${page.repeat(3)}`), 4_500],
    ['PDF by its page tree', fileOf('application/pdf', '%PDF-1.7\n<</Type/Pages/Count 12>>'), 18_000],
    [
      'PDF whose page tree is at its end',
      fileOf('', Buffer.concat([Buffer.from('%PDF-1.4\n'), filling, Buffer.from('<</Type/Pages /Count 8>>')])),
      12_000,
    ],
    ['PDF of compressed pages', fileOf('application/pdf', filling), 30_000],
    ['PDF that states too many pages', fileOf('application/pdf', '%PDF-1.7 /Count 999999'), 1_500_000],
    ['PDF without a media type', fileOf('', `%PDF-1.7\n${page}`), 1_500],
    ['PDF by its name', fileOf('application/octet-stream', filling, 'a.PDF'), 30_000],
    [
      'WAV file by its header',
      fileOf(
        'audio/wav',
        bytesOf('RIFF\0\0\0\0WAVEfmt ', [16, 0, 0, 0, 1, 0, 1, 0, 0x80, 0x3e, 0, 0, 0, 0x7d, 0, 0], 320_000),
      ),
      320,
    ],
    ['MP3 file by its size', fileOf('audio/mpeg', Buffer.alloc(160_000)), 320],
    ['video', fileOf('video/mp4', Buffer.alloc(2_500_000)), 3_000],
    ['text file by its text', fileOf('text/plain', 'abcd'.repeat(100)), 100],
    ['text file of another script', fileOf('text/markdown; charset=utf-8'.replace('; ', ';'), '漢字'.repeat(100)), 200],
    ['text file by its name', fileOf('', 'abcd'.repeat(100), 'notes.csv'), 100],
    ['JSON file', fileOf('application/vnd.api+json', '{"a":1}'), 2],
    ['text file without base64', { type: 'file', file: { file_data: 'data:text/plain,a%20b%C3%A4%' } }, 2],
    ['empty file', fileOf('text/plain', ''), 0],
    ['file of another kind', fileOf('application/zip', Buffer.alloc(1_200)), 300],
    ['file that is not in the message', { type: 'file', file: { file_id: 'f-1' } }, 1_000],
  ])('M-23 follows the rule for a %s', (_what, part, tokens) => {
    expect(tokensOf(part)).toBe(tokens);
  });

  it('M-23 is made of a part of a long text', () => {
    const tokens = tokensOf(fileOf('text/plain', 'abcd'.repeat(1_000_000)));
    expect(Math.abs(tokens - 1_000_000)).toBeLessThan(10);
  });

  it('M-23 does not let a PDF of 2 MB trigger compaction at 100,000 tokens', () => {
    expect(tokensOf(fileOf('application/pdf', filling))).toBeLessThan(80_000);
  });
});
