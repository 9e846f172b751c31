import { describe, expect, it } from '@jest/globals';
import type { ToolPolicy } from 'millrace';
import { exposedName, policyOfTool } from 'millrace/internals';
import type { McpAnnotations, McpProcessOptions } from 'millrace/mcp';
import { listContext } from '../tools/tool-context.ts';

function policyOf(annotations: McpAnnotations, options: Partial<McpProcessOptions> = {}): ToolPolicy {
  return policyOfTool({ server: 's', name: 'drop', annotations }, { command: 'c', ...options });
}

describe('the policy of an MCP tool', () => {
  it.each<[string, McpAnnotations, ToolPolicy]>([
    ['only reads', { readOnlyHint: true, destructiveHint: true }, { readOnly: true, onInDoubt: 'retry' }],
    ['is idempotent', { idempotentHint: true, destructiveHint: true }, { idempotent: true, onInDoubt: 'retry' }],
    ['may destroy something', { destructiveHint: true }, { onInDoubt: 'ask' }],
    ['says nothing', {}, {}],
  ])('is made of its annotations where it %s', (_what, annotations, policy) => {
    expect(policyOf(annotations)).toEqual({ timeoutMs: 0, ...policy });
    expect(policyOf(annotations, { trustAnnotations: false })).toEqual({ timeoutMs: 0 });
  });

  it.each<[McpAnnotations, boolean]>([
    [{ readOnlyHint: true }, false],
    [{ destructiveHint: false }, false],
    [{ destructiveHint: true }, true],
    [{}, true],
  ])('wants an approval of what may be destructive: %j', (annotations, needsApproval) => {
    expect(policyOf(annotations, { needsApproval: 'destructive' })).toMatchObject({ needsApproval });
    const distrusted = policyOf(annotations, { needsApproval: 'destructive', trustAnnotations: false });
    expect(distrusted).toMatchObject({ needsApproval: true });
  });

  it('asks a function of the tool and its arguments', async () => {
    const needsApproval: McpProcessOptions['needsApproval'] = ({ name }, args) => name === 'drop' && args === 'all';
    const policy = policyOf({}, { needsApproval });
    if (typeof policy.needsApproval !== 'function') throw new Error('no function');
    expect(await policy.needsApproval('all', listContext)).toBe(true);
    expect(await policy.needsApproval('one', listContext)).toBe(false);
  });

  it('is what the options say in the end', () => {
    const policy = policyOf({ destructiveHint: true }, { policy: () => ({ onInDoubt: 'fail', sequential: true }) });
    expect(policy).toEqual({ timeoutMs: 0, onInDoubt: 'fail', sequential: true });
  });
});

describe('the name of an MCP tool', () => {
  it.each([
    ['read_file', 's__read_file'],
    ['dots.and/slashes', /^s__dots_and_slashes_[0-9a-f]{8}$/],
    ['long'.repeat(30), /^s__(long)+_[0-9a-f]{8}$/],
  ])('is in the letters of all vendors: %s', (name, exposed) => {
    const given = exposedName('s__', name);
    if (typeof exposed === 'string') expect(given).toBe(exposed);
    else expect(given).toMatch(exposed);
    expect(given.length).toBeLessThanOrEqual(64);
  });

  it('tells names apart that look the same then', () => {
    expect(exposedName('', 'a.b')).not.toBe(exposedName('', 'a/b'));
  });
});
