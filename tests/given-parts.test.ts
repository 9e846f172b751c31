import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from '@jest/globals';
import jestConfig from '../jest.config.ts';

const root = fileURLToPath(new URL('..', import.meta.url));

function importersOf(name: string, folder: string): readonly string[] {
  const isImport = (text: string) => text.includes(`from '${name}'`) || text.includes(`import('${name}')`);
  return readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.ts'))
    .filter((file) => isImport(readFileSync(join(root, folder, file), 'utf8')));
}

function packages(): { readonly shipped: readonly string[]; readonly developing: readonly string[] } {
  const { dependencies, devDependencies, peerDependencies } = JSON.parse(
    readFileSync(join(root, 'package.json'), 'utf8'),
  );
  return {
    shipped: Object.keys({ ...dependencies, ...peerDependencies }),
    developing: Object.keys(devDependencies),
  };
}

describe('the given packages and the top level', () => {
  it.each(['rxjs', '@opentelemetry/api', '@opentelemetry/sdk-trace-node', 'ioredis', 'p-limit'])(
    'S1-109 %s is shipped and used by the library',
    (name) => {
      expect(packages().shipped).toContain(name);
      expect(importersOf(name, 'src').length).toBeGreaterThan(0);
    },
  );

  it('S1-109 jest runs the tests, by ts-jest', () => {
    expect(packages().developing).toEqual(expect.arrayContaining(['jest', 'ts-jest']));
    expect(jestConfig.transform).toMatchObject({ '^.+\\.ts$': ['ts-jest', expect.anything()] });
  });

  it.each([
    'package.json',
    'tsconfig.json',
    'jest.config.ts',
    'src',
    'tests',
    'docs',
    'A2A_ALIGNMENT.md',
    'docker-compose.yml',
  ])('S1-109 %s stands at the top', (name) => {
    expect(existsSync(join(root, name))).toBe(true);
  });
});
