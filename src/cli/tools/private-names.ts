/** Folders that hold secrets or the journals of turns. Nothing below them is read. */
const privateFolders: ReadonlySet<string> = new Set([
  '.aws',
  '.azure',
  '.docker',
  '.git',
  '.gnupg',
  '.hg',
  '.kube',
  '.millrace',
  '.password-store',
  '.ssh',
  '.svn',
]);

const privateFiles: ReadonlySet<string> = new Set([
  '.dockercfg',
  '.git-credentials',
  '.htpasswd',
  '.netrc',
  '.npmrc',
  '.pgpass',
  '.pypirc',
  '.yarnrc.yml',
  '_netrc',
  'application_default_credentials.json',
  'credentials.json',
  // The files of LMDB, in whichever folder they are.
  'data.mdb',
  'lock.mdb',
]);

/** `.env`, `.env.local`, `.envrc`; keys and key stores; the names that ssh-keygen and cloud consoles give. */
const privatePatterns: readonly RegExp[] = [
  /^\.env/,
  /\.(?:pem|key|p8|p12|pfx|pkcs12|jks|jceks|keystore|kdbx?|ppk|gpg|keytab|mdb|mdb-lock)$/,
  /^id_(?:rsa|dsa|ecdsa|ed25519|xmss)/,
  /^(?:service[-_]?account|client_secret).*\.json$/,
];

/** Where a system keeps memory, environments and devices of processes as files. */
const systemFolders: readonly string[] = ['/proc', '/sys', '/dev'];

const privateKey = /-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----/;

/** Whether a file or folder of this name, and with it all that is below, is kept from tools. Case does not count. */
export function isPrivateName(name: string): boolean {
  const lower = name.toLowerCase();
  return privateFolders.has(lower) || privateFiles.has(lower) || privatePatterns.some((pattern) => pattern.test(lower));
}

/** Whether an absolute real path is in a file system that the kernel makes up. */
export function isSystemPath(path: string): boolean {
  return systemFolders.some((folder) => path === folder || path.startsWith(`${folder}/`));
}

/** How many bytes from the start of a file {@link holdsPrivateKey} needs. */
export const privateKeyWindow = 4_096;

/** Whether the start of a file has the header of a private key, whatever the file is called. */
export function holdsPrivateKey(start: Uint8Array): boolean {
  return privateKey.test(Buffer.from(start.buffer, start.byteOffset, start.byteLength).toString('latin1'));
}
