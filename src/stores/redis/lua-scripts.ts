import { createHash } from 'node:crypto';
import { readLua } from './read-lua.ts';

/** By name: the file in `lua/`, whose last number says how many keys it takes, and the flags that Redis runs it with. */
const files = {
  create: { file: 'create-2', flags: '' },
  acquire: { file: 'acquire-2', flags: '' },
  append: { file: 'append-1', flags: '' },
  /** The same for a terminal record: a turn can end where memory is full. */
  finish: { file: 'append-1', flags: ' flags=allow-oom' },
  renew: { file: 'renew-1', flags: ' flags=allow-oom' },
  release: { file: 'release-1', flags: ' flags=allow-oom' },
  break: { file: 'break-1', flags: ' flags=allow-oom' },
  post: { file: 'post-3', flags: '' },
  read: { file: 'read-3', flags: ' flags=no-writes' },
  look: { file: 'look-2', flags: ' flags=no-writes' },
  publish: { file: 'publish-2', flags: '' },
  delete: { file: 'delete-3', flags: ' flags=allow-oom' },
  describe: { file: 'describe-1', flags: ' flags=no-writes' },
} as const;

export type ScriptName = keyof typeof files;

export interface LuaScript {
  readonly source: string;
  readonly sha1: string;
}

export type LuaScripts = Readonly<Record<ScriptName, LuaScript>>;

/** The scripts of the state store. */
export function luaScripts(): LuaScripts {
  const script = (name: ScriptName): LuaScript => luaScript({ prelude: 'prelude', ...files[name] });
  return {
    create: script('create'),
    acquire: script('acquire'),
    append: script('append'),
    finish: script('finish'),
    renew: script('renew'),
    release: script('release'),
    break: script('break'),
    post: script('post'),
    read: script('read'),
    look: script('look'),
    publish: script('publish'),
    delete: script('delete'),
    describe: script('describe'),
  };
}

export interface LuaFile {
  /** What stands in front of it: another file, or nothing. */
  readonly prelude?: string;
  readonly file: string;
  /** Begin with a blank. */
  readonly flags: string;
}

/** By their names and flags. */
const loaded = new Map<string, LuaScript>();

/** A script of files in `lua/`, as Redis gets it; made at its first use. */
export function luaScript(named: LuaFile): LuaScript {
  const name = `${named.prelude} ${named.file}${named.flags}`;
  const script = loaded.get(name) ?? readScript(named);
  loaded.set(name, script);
  return script;
}

function readScript({ prelude, file, flags }: LuaFile): LuaScript {
  const source = `#!lua${flags}\n${prelude === undefined ? '' : readLua(prelude)}${readLua(file)}`;
  return { source, sha1: createHash('sha1').update(source).digest('hex') };
}
