import { statfsSync } from 'node:fs';

/** `statfs` types of Linux whose locks or memory maps do not hold between machines. */
const networkTypes: ReadonlyMap<number, string> = new Map([
  [0x6969, 'NFS'],
  [0x517b, 'SMB'],
  [0xff534d42, 'CIFS'],
  [0xfe534d42, 'SMB2'],
  [0x01021997, '9P'],
  [0x5346414f, 'AFS'],
  [0x00c36400, 'Ceph'],
  [0x0bd00bd0, 'Lustre'],
  [0x65735546, 'FUSE'],
]);

export interface FileSystem {
  /** The kind of a file system that may lie on another machine; undefined for a local or unknown one. */
  readonly network: string | undefined;
  readonly freeBytes: number;
}

export function fileSystemOf(path: string): FileSystem {
  const { type, bavail, bsize } = statfsSync(path);
  // Types of 32 bits may come with their sign.
  const network = process.platform === 'linux' ? networkTypes.get(type >>> 0) : undefined;
  return { network, freeBytes: bavail * bsize };
}
