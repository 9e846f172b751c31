import { once } from 'node:events';
import { afterAll, describe, expect, it } from '@jest/globals';
import type { JSONSchema } from 'millrace';
import { foreignSchemaChecker, jsonSchemaChecker } from 'millrace/internals';
import { ChildPrograms } from '../stores/lmdb/child-programs.ts';

const children = new ChildPrograms('tests/security/children');
afterAll(() => children.clear());

describe('arguments that a model writes for a schema of the program', () => {
  const alternatives = Array.from({ length: 300 }, (_, id) => ({ type: 'object', properties: { id: { const: id } } }));
  const many = Array.from({ length: 300_000 }, () => 1);
  const schemas: readonly (readonly [string, JSONSchema, unknown, unknown])[] = [
    ['many alternatives', { type: 'array', items: { anyOf: alternatives } }, many, [{ id: 1 }]],
    [
      'long texts',
      { items: { allOf: Array.from({ length: 100 }, () => ({ maxLength: 1e9 })) } },
      ['y'.repeat(2e7)],
      ['y'],
    ],
    ['errors that name long texts', { items: { enum: ['x'.repeat(1e6)] } }, many.slice(0, 5_000), []],
    ['unique objects', { type: 'array', uniqueItems: true }, many.map((_, id) => ({ id })), [{ id: 1 }]],
  ];

  it.each(schemas)('H-11 cannot freeze the process: %s', async (_, schema, large, small) => {
    const check = jsonSchemaChecker({ type: 'object', properties: { list: schema } }, 'tool "t"');
    const late = { code: 'TOOL_TIMEOUT', message: expect.stringContaining('call it with fewer values') };
    const tried = async (list: unknown) => check({ list });
    for (let time = 0; time < 3; time++) await expect(tried(large)).rejects.toMatchObject(late);
    expect(await tried(small)).toEqual({ ok: true, value: { list: small } });
  });

  it.each(schemas.slice(1, 3))(
    'H-11 cannot freeze it by a schema of a stranger, whose first check was quick: %s',
    async (_, schema, large, small) => {
      const check = foreignSchemaChecker({ type: 'object', properties: { list: schema } }, 'tool "t"');
      expect(await check({ list: small })).toMatchObject({ ok: true });
      await expect(async () => check({ list: large })).rejects.toMatchObject({ code: 'TOOL_TIMEOUT' });
    },
  );
});

describe('an interrupt while a schema is checked', () => {
  it.each(['one-by-one', 'together'])(
    'H-11 is heard once that check is over, however many follow, and cancels the turn: 40 calls %s',
    async (mode) => {
      const program = children.start('slow-checks', mode);
      const told: unknown[] = [];
      program.on('message', (message) => told.push(message));
      expect(await once(program, 'exit')).toEqual([0, null]);
      expect(told).toEqual(['begins', expect.stringMatching(/^heard after [01]$/), 'turn: CANCELED']);
    },
  );

  it('H-11 ends a program without a handler in the middle of one', async () => {
    const program = children.start('slow-checks');
    const told: unknown[] = [];
    program.on('message', (message) => {
      if (told.push(message) === 1) program.kill('SIGINT');
    });
    expect(await once(program, 'exit')).toEqual([null, 'SIGINT']);
    expect(told).toEqual(['begins']);
  });
});
