import { describe, expect, it } from '@jest/globals';
import { quoted, resumeCommand, storeSettings, type TurnFlags, watchCommand } from 'millrace/internals';

const placeOf = (flags: TurnFlags, env = {}) => ({ taskId: 't', flags, store: storeSettings(flags, env) });

describe('the command that resumes a turn', () => {
  it('is short where nothing was said', () => {
    expect(resumeCommand(placeOf({}))).toBe('millrace resume t');
    expect(resumeCommand(placeOf({}, { MILLRACE_STORE: 'redis://:secret@h' }))).toBe('millrace resume t');
  });

  it('repeats what the turn needs, as words of a shell, without what is secret', () => {
    const flags = {
      tools: "./my tools/it's.mjs",
      baseUrl: 'http://me:secret@h:4000/v1?key=secret',
      model: 'openai/gpt-4o',
      apiKeyEnv: 'MY_KEY',
      store: 'redis://me:secret@h:6380/1',
      trace: true,
    };
    expect(resumeCommand(placeOf(flags))).toBe(
      "millrace resume t --tools './my tools/it'\\''s.mjs' --base-url http://h:4000/v1 --model openai/gpt-4o --api-key-env MY_KEY --store redis://USER:PASSWORD@h:6380/1",
    );
    expect(watchCommand(placeOf(flags))).toBe('millrace show t --watch --store redis://USER:PASSWORD@h:6380/1');
  });
});

it('a word is quoted only where it has to be', () => {
  expect(['a/b.c:1=2', 'a b', '{"x":1}', ''].map(quoted)).toEqual(['a/b.c:1=2', "'a b'", `'{"x":1}'`, "''"]);
});
