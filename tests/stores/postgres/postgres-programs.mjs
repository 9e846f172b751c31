import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';

const root = '/usr/lib/postgresql';

/** Where Debian's package keeps the programs of the newest version; undefined where there is none. */
export const postgresPrograms = (existsSync(root) ? readdirSync(root).map(Number) : [])
  .sort((one, other) => other - one)
  .map((version) => join(root, String(version), 'bin'))
  .find((bin) => existsSync(join(bin, 'initdb')));
