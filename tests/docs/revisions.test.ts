import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { SUPPORTED_PROTOCOL_VERSIONS } from '@modelcontextprotocol/client';
import { root } from './markdown.ts';

const textOf = (file: string) => readFileSync(join(root, file), 'utf8');
const { peerDependencies }: { readonly peerDependencies: Readonly<Record<string, string>> } = JSON.parse(
  textOf('package.json'),
);

describe('pages that name revisions', () => {
  it('P-21 the guide of MCP names the oldest and the newest revision that the SDK speaks with a session, and the one without', () => {
    const revisions = [...SUPPORTED_PROTOCOL_VERSIONS].sort();
    const guide = textOf('docs/mcp.md');
    expect(guide).toContain(
      `the revisions ${revisions[0]} to ${revisions.at(-1)}, with a handshake and a session, and 2026-07-28`,
    );
  });

  it('P-21 the page of A2A names 1.0.1, and its differences to 1.0.0 with both values', () => {
    const page = textOf('A2A_ALIGNMENT.md');
    expect(page).toContain('The server follows 1.0.1 (2026-05-28)');
    const [, table = ''] = /sees these differences:\n\n((?:\|.*\n)+)/.exec(page) ?? [];
    const rows = table
      .trim()
      .split('\n')
      .slice(2)
      .map((row) => row.split('|').map((cell) => cell.trim()));
    expect(rows).toHaveLength(5);
    for (const [, what, before, now] of rows)
      expect([what, before, now].every((cell) => cell) && before !== now).toBe(true);
  });

  it('P-21 the page of versions has each major version that a package of models may have', () => {
    const rows = textOf('docs/versions.md')
      .split('\n')
      .filter((line) => line.startsWith('| '));
    const packages = Object.keys(peerDependencies).filter((name) => name.startsWith('@ai-sdk/') || name === 'openai');
    expect(packages.length).toBeGreaterThan(8);
    for (const name of packages) {
      const row = rows.find((line) => line.split('|')[1]?.includes(`\`${name}\``)) ?? '';
      const majors = [...(peerDependencies[name] ?? '').matchAll(/\^(\d+)/g)].map(([, major]) => major);
      expect([name, majors.filter((major) => !new RegExp(`\\b${major}\\b`).test(row))]).toEqual([name, []]);
    }
  });
});
