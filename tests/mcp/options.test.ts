import { describe, expect, it } from '@jest/globals';
import { mcpTools } from 'millrace/mcp';
import { thrownBy } from '../tools/thrown.ts';

const command = 'c';
const url = 'https://h.test/mcp';

describe('the options of mcpTools', () => {
  it.each<[unknown, RegExp]>([
    [undefined, /^mcpTools takes an object of options/],
    [{}, /servers names no server/],
    [{ servers: {} }, /servers names no server/],
    [{ servers: { s: { command } }, stray: 1 }, /no option "stray"/],
    [
      { servers: { s: { command } }, reconnect: { initialMs: -1 } },
      /reconnect: initialMs must be milliseconds, more than 0, not -1/,
    ],
    [{ servers: { 'a b': { command } } }, /server "a b" has a name of other characters/],
    [{ servers: { s: 'npx' } }, /server "s" is "npx"; give \{ command \} or \{ url \}/],
    [{ servers: { s: {} } }, /server "s" needs a command or a url, one of them/],
    [{ servers: { s: { command, url } } }, /needs a command or a url, one of them/],
    [{ servers: { s: { command: ' ' } } }, /command must be the name of a program/],
    [{ servers: { s: { command: undefined } } }, /command is missing/],
    [{ servers: { s: { command, args: 'x' } } }, /args must be an array of strings/],
    [{ servers: { s: { command, env: { A: 1 } } } }, /env must be an object of strings/],
    [{ servers: { s: { command, headers: {} } } }, /has no option "headers"/],
    [{ servers: { s: { url: 'ftp://h' } } }, /url is no address of http or https/],
    [{ servers: { s: { url: 'https://me:sesame@h' } } }, /url holds a user or a password; send them as a header/],
    [{ servers: { s: { url, headers: 'x' } } }, /headers must be an object of strings/],
    [{ servers: { s: { url, env: {} } } }, /has no option "env"/],
    [{ servers: { s: { url, timeoutMs: 0 } } }, /timeoutMs must .*, not 0/],
    [{ servers: { s: { url, prefix: 'a.b' } } }, /prefix must be at most 40 of .*, not "a\.b"/],
    [{ servers: { s: { url, tools: ['a', 1] } } }, /tools must be an array of strings/],
    [{ servers: { s: { url, roots: '/' } } }, /roots must be an array of strings/],
    [{ servers: { s: { url, required: 'yes' } } }, /required must be true or false, not "yes"/],
    [
      { servers: { s: { url, needsApproval: 'always' } } },
      /needsApproval must be true, false, "destructive" or a function, not "always"/,
    ],
    [{ servers: { s: { url, policy: {} } } }, /policy must be a function/],
    [{ servers: { s: { url, elicitation: { hold: 1 } } } }, /no option "hold"/],
    [{ servers: { s: { url, sampling: {} } } }, /provider is missing/],
    [{ servers: { s: { url, sampling: { provider: { call() {} }, maxTokens: 0.5 } } } }, /maxTokens must .*, not 0\.5/],
  ])('are refused where they are wrong: %j', async (options, message) => {
    const error = await thrownBy(() => Reflect.apply(mcpTools, undefined, [options]));
    expect(error).toMatchObject({ code: 'INVALID_CONFIG', message: expect.stringMatching(message) });
    expect(error.message).not.toContain('sesame');
  });
});
