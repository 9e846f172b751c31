import type { FilePart, ImagePart } from '../contracts/index.ts';

/** Of an image whose size is not known. */
const unknownImageTokens = 1_100;
/** Of an image with `detail: 'low'`, and of every image beside its tiles. */
const baseImageTokens = 85;
const tokensPerTile = 170;
const tilePixels = 512;
const longestSide = 2_048;
const shorterSide = 768;

/** Of a file whose content is not in the message. */
const unseenFileTokens = 1_000;
const tokensPerPage = 1_500;
/** Of a PDF whose pages are compressed. */
const bytesPerPage = 100_000;
/** Vendors accept no more. */
const mostPages = 1_000;
const audioTokensPerSecond = 32;
const videoTokensPerSecond = 300;
/** 128 kbit/s. */
const audioBytesPerSecond = 16_000;
/** 2 Mbit/s. */
const videoBytesPerSecond = 250_000;

/** How much of the beginning and of the end of a file is read. Bytes. */
const readBytes = 384 * 1024;

/** Estimates the tokens of an image: by OpenAI's tiles of 512 pixels if it is a PNG, JPEG, GIF or WebP in a `data:` URL, else 1,100. */
export function imageTokens({ image_url: { url, detail } }: ImagePart): number {
  return detail === 'low' ? baseImageTokens : tokensOfImage(fileOf(url));
}

/**
 * Estimates the tokens of a file by its kind: 1,500 for each page of a PDF, 32 for each second of audio and 300 of video, an image by its size, text by
 * its text, and anything else a quarter of a token for each byte. Reads at most 768 KiB of it.
 */
export function fileTokens({ file }: FilePart, countText: (text: string) => number): number {
  const { file_data: data, filename = '' } = file;
  if (data === undefined) return unseenFileTokens;
  const given = fileOf(data);
  const kind = kindOf(given, filename);
  switch (kind) {
    case 'image':
      return tokensOfImage(given);
    case 'pdf':
      return pagesOf(given) * tokensPerPage;
    case 'audio':
      return Math.ceil(secondsOf(given) * audioTokensPerSecond);
    case 'video':
      return Math.ceil((given.bytes / videoBytesPerSecond) * videoTokensPerSecond);
    case 'text':
      return textTokens(given, countText);
    case 'other':
      return Math.ceil(given.bytes / 4);
    default:
      return kind satisfies never;
  }
}

interface GivenFile {
  /** In lower case; empty if the content has no `data:` prefix. */
  readonly mediaType: string;
  /** The approximate size of the content. */
  readonly bytes: number;
  /** Bytes from the beginning. */
  head(count: number): Buffer;
  /** Bytes from the end. */
  tail(count: number): Buffer;
}

/** A `data:` URL, or base64 alone. */
function fileOf(data: string): GivenFile {
  const comma = data.startsWith('data:') ? data.indexOf(',') : -1;
  const prefix = data.slice(0, Math.max(comma, 0)).toLowerCase();
  const mediaType = prefix.slice('data:'.length).split(';', 1)[0] ?? '';
  const from = comma + 1;
  const padding = data.endsWith('==') ? 2 : data.endsWith('=') ? 1 : 0;
  const length = data.length - from;
  if (comma >= 0 && !prefix.endsWith(';base64')) {
    const read = (start: number, end: number) => Buffer.from(unescaped(data.slice(start, end)));
    const tail = (count: number) => read(Math.max(from, data.length - count), data.length);
    return { mediaType, bytes: length, head: (count) => read(from, from + count), tail };
  }
  const read = (start: number, end: number) => Buffer.from(data.slice(start, end), 'base64');
  const charsOf = (count: number) => Math.ceil(count / 3) * 4;
  return {
    mediaType,
    bytes: Math.max(0, Math.floor((length * 3) / 4) - padding),
    head: (count) => read(from, from + charsOf(count)),
    tail: (count) => read(from + Math.max(0, (Math.ceil(length / 4) - Math.ceil(count / 3)) * 4), data.length),
  };
}

function unescaped(text: string): string {
  return text.replace(/(?:%[0-9a-f]{2})+/gi, (bytes) => Buffer.from(bytes.replaceAll('%', ''), 'hex').toString());
}

type FileKind = 'image' | 'pdf' | 'audio' | 'video' | 'text' | 'other';

const kindsOfTypes: readonly (readonly [RegExp, FileKind])[] = [
  [/^image\/(?!svg)/, 'image'],
  [/^application\/(x-)?pdf$/, 'pdf'],
  [/^audio\//, 'audio'],
  [/^video\//, 'video'],
  [/^text\/|^image\/svg|[/+](json|xml|yaml|x-yaml|javascript|typescript|sql|toml|ndjson|x-sh)$/, 'text'],
];

const kindsOfNames: readonly (readonly [RegExp, FileKind])[] = [
  [/\.(png|jpe?g|gif|webp)$/i, 'image'],
  [/\.pdf$/i, 'pdf'],
  [/\.(mp3|wav|m4a|ogg|opus|flac|aac)$/i, 'audio'],
  [/\.(mp4|mov|webm|mkv|avi|mpe?g)$/i, 'video'],
  [
    /\.(txt|md|csv|tsv|json|jsonl|xml|ya?ml|html?|css|log|sql|toml|ini|sh|py|js|ts|tsx|jsx|java|c|h|cpp|rs|go|rb)$/i,
    'text',
  ],
];

function kindOf(file: GivenFile, filename: string): FileKind {
  const bySignature = file.head(5).toString('latin1').startsWith('%PDF-') ? 'pdf' : undefined;
  const found = kindsOfTypes.find(([pattern]) => pattern.test(file.mediaType))?.[1];
  return found ?? bySignature ?? kindsOfNames.find(([pattern]) => pattern.test(filename))?.[1] ?? 'other';
}

/** Counts the beginning of a long text, and assumes the same of its rest. */
function textTokens(file: GivenFile, countText: (text: string) => number): number {
  const tokens = countText(file.head(readBytes).toString());
  return file.bytes <= readBytes ? tokens : Math.ceil((tokens * file.bytes) / readBytes);
}

/** The number of pages: as the page tree states it, else of the pages that are found, else by the size. */
function pagesOf(file: GivenFile): number {
  const isWhole = file.bytes <= 2 * readBytes;
  const read = isWhole ? [file.head(2 * readBytes)] : [file.head(readBytes), file.tail(readBytes)];
  const text = read.map((bytes) => bytes.toString('latin1')).join('\n');
  let pages = text.match(/\/Type\s*\/Page(?![A-Za-z])/g)?.length ?? 0;
  for (const [, count] of text.matchAll(/\/Count\s+(\d{1,6})/g)) pages = Math.max(pages, Number(count));
  return Math.min(pages || Math.ceil(file.bytes / bytesPerPage), mostPages);
}

/** Of a WAV file by its header, of others by a common bit rate. */
function secondsOf(file: GivenFile): number {
  const head = file.head(32);
  const isWave =
    head.length >= 32 && head.toString('latin1', 0, 4) === 'RIFF' && head.toString('latin1', 8, 12) === 'WAVE';
  const bytesPerSecond = isWave ? head.readUInt32LE(28) : 0;
  return file.bytes / (bytesPerSecond > 0 ? Math.max(bytesPerSecond, 1_000) : audioBytesPerSecond);
}

interface ImageSize {
  readonly width: number;
  readonly height: number;
}

function tokensOfImage(file: GivenFile): number {
  const size = sizeOfImage(file);
  if (!size || size.width === 0 || size.height === 0) return unknownImageTokens;
  const [long, short] = [Math.max(size.width, size.height), Math.min(size.width, size.height)];
  const scale = Math.min(1, longestSide / long, shorterSide / short);
  return baseImageTokens + tokensPerTile * tiles(long * scale) * tiles(short * scale);
}

function tiles(pixels: number): number {
  return Math.max(1, Math.ceil(pixels / tilePixels));
}

/** The size of a PNG, GIF, WebP or JPEG, from its header. */
function sizeOfImage(file: GivenFile): ImageSize | undefined {
  const head = file.head(32);
  if (head.length < 30) return undefined;
  const start = head.toString('latin1', 0, 16);
  if (start.startsWith('\x89PNG')) return { width: head.readUInt32BE(16), height: head.readUInt32BE(20) };
  if (start.startsWith('GIF8')) return { width: head.readUInt16LE(6), height: head.readUInt16LE(8) };
  if (start.startsWith('RIFF') && start.slice(8, 12) === 'WEBP') return sizeOfWebP(head, start.slice(12, 16));
  return start.startsWith('\xff\xd8') ? sizeOfJpeg(file.head(readBytes)) : undefined;
}

function sizeOfWebP(head: Buffer, chunk: string): ImageSize | undefined {
  if (chunk === 'VP8X') return { width: head.readUIntLE(24, 3) + 1, height: head.readUIntLE(27, 3) + 1 };
  if (chunk === 'VP8 ') return { width: head.readUInt16LE(26) & 0x3fff, height: head.readUInt16LE(28) & 0x3fff };
  if (chunk !== 'VP8L') return undefined;
  const bits = head.readUInt32LE(21);
  return { width: (bits & 0x3fff) + 1, height: ((bits >>> 14) & 0x3fff) + 1 };
}

/** Skips the segments before the frame header, such as EXIF data. */
function sizeOfJpeg(bytes: Buffer): ImageSize | undefined {
  let at = 2;
  while (at + 9 <= bytes.length && bytes[at] === 0xff) {
    const marker = bytes[at + 1] ?? 0;
    if (isFrame(marker)) return { width: bytes.readUInt16BE(at + 7), height: bytes.readUInt16BE(at + 5) };
    at += marker === 0xff ? 1 : 2 + bytes.readUInt16BE(at + 2);
  }
  return undefined;
}

/** SOF0 to SOF15, without the tables and the arithmetic coding between them. */
function isFrame(marker: number): boolean {
  return marker >= 0xc0 && marker <= 0xcf && marker !== 0xc4 && marker !== 0xc8 && marker !== 0xcc;
}
