import { resolve } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { shownStore, storeSettings } from 'millrace/internals';

describe('storeSettings', () => {
  it.each<[string, string | undefined, Record<string, string>, object]>([
    ['nothing', undefined, {}, { kind: 'lmdb', path: resolve('.millrace') }],
    ['an empty variable', undefined, { MILLRACE_STORE: ' ' }, { kind: 'lmdb', path: resolve('.millrace') }],
    ['lmdb', 'lmdb', {}, { kind: 'lmdb', path: resolve('.millrace') }],
    ['a folder', 'lmdb:/var/turns', {}, { kind: 'lmdb', path: '/var/turns' }],
    ['memory', 'memory', {}, { kind: 'memory' }],
    ['the variable', undefined, { MILLRACE_STORE: 'memory' }, { kind: 'memory' }],
    ['the option before the variable', 'lmdb:x', { MILLRACE_STORE: 'memory' }, { kind: 'lmdb', path: resolve('x') }],
    ['Redis', 'redis://h:6380/2', {}, { kind: 'redis', url: 'redis://h:6380/2' }],
    ['PostgreSQL', 'postgres://h/d', {}, { kind: 'postgres', url: 'postgres://h/d' }],
    ['Redis over TLS', 'rediss://h', {}, { kind: 'redis', url: 'rediss://h' }],
  ])('%s', (_what, store, env, expected) => {
    expect(storeSettings(store === undefined ? {} : { store }, env)).toMatchObject(expected);
  });

  it.each(['', 'lmdb:', 'redis', 'redis://', 'http://h', 'redis:/secret@h', 'postgres://', 'x secret'])(
    'refuses "%s" without repeating it',
    (store) => {
      expect(() => storeSettings({ store }, {})).toThrow(
        expect.objectContaining({ code: 'INVALID_CONFIG', message: expect.not.stringContaining('secret') }),
      );
    },
  );

  it('shows an address without what is secret in it', () => {
    const settings = storeSettings({ store: 'redis://me:secret@h:6380/2?password=secret' }, {});
    expect(shownStore(settings)).toBe('redis://USER:PASSWORD@h:6380/2');
    expect(settings.place).toBe('Redis at redis://h:6380/2');
    const postgres = storeSettings({ store: 'postgresql://me:secret@h/d?password=secret' }, {});
    expect(shownStore(postgres)).toBe('postgresql://USER:PASSWORD@h/d');
    expect(postgres.place).toBe('PostgreSQL at postgresql://h/d');
    expect(shownStore(storeSettings({ store: 'lmdb:/a b' }, {}))).toBe('lmdb:/a b');
  });
});
