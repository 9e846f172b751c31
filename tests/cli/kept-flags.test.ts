import { resolve } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { keepFlags, storeSettings, withKeptFlags } from 'millrace/internals';

const placeOf = (flags = {}) => ({ taskId: 't', flags, store: storeSettings(flags, {}) });
const flagsWith = (metadata: Readonly<Record<string, unknown>>, flags = {}) =>
  withKeptFlags(placeOf(flags), metadata).flags;

describe('the options that a journal keeps', () => {
  it('are those that the turn needs again, without what is secret, and a path that holds in every folder', () => {
    const baseUrl = 'http://me:secret@h:4000/v1?key=secret';
    const { metadata = {} } = keepFlags({ tools: './t.mjs', baseUrl, model: 'm', apiKeyEnv: 'MY_KEY' });
    expect(JSON.stringify(metadata)).not.toContain('secret');
    const kept = { tools: resolve('t.mjs'), baseUrl: 'http://h:4000/v1', model: 'm', apiKeyEnv: 'MY_KEY' };
    expect(flagsWith(metadata)).toEqual(kept);
    expect(flagsWith(metadata, { model: 'other' })).toEqual({ ...kept, model: 'other' });
  });

  it('are MCP servers in files and at addresses, not commands, which may hold secrets', () => {
    const servers = ['./mcp.json', 'far=https://far.test/mcp?key=secret', 'https://near.test/mcp'];
    const { metadata = {} } = keepFlags({ mcp: servers });
    expect(flagsWith(metadata)).toEqual({
      mcp: [resolve('mcp.json'), 'far=https://far.test/mcp', 'https://near.test/mcp'],
    });
    expect(keepFlags({ mcp: [...servers, 'npx server --token secret'] })).toEqual({});
  });

  it('are left out where an agent takes their place: the command would be refused with both', () => {
    const { metadata = {} } = keepFlags({ tools: './t.mjs', model: 'm' });
    expect(flagsWith(metadata, { agent: './agent.mjs' })).toEqual({ agent: './agent.mjs' });
  });

  it('are nothing where nothing was said', () => {
    expect(keepFlags({})).toEqual({});
    expect(flagsWith({})).toEqual({});
  });

  it.each([
    ['no object', 'text'],
    ['null', null],
    ['not text', { tools: 7 }],
    ['what steers a terminal', { tools: 'a\u001b[2Jb', model: 'm\nrm' }],
    ['no address', { baseUrl: 'nowhere' }],
    ['no list of servers', { mcp: ['a.json', 7] }],
  ])('of a journal from elsewhere are passed over where they are %s', (_what, millrace) => {
    expect(flagsWith({ millrace })).toEqual({});
  });
});
