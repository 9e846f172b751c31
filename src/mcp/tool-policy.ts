import type { ToolPolicy } from '../core/contracts/index.ts';
import type { McpAnnotations, McpServerOptions, McpToolInfo } from './mcp-options.ts';

/**
 * How the engine treats a tool of a server. A call that was in doubt runs again where the tool only reads or is idempotent, is asked about
 * where the server says that it may destroy something, and else fails. The limits of time are the connection's own.
 */
export function policyOfTool(tool: McpToolInfo, server: McpServerOptions): ToolPolicy {
  const hints = server.trustAnnotations === false ? {} : tool.annotations;
  const needsApproval = approvalOf(tool, hints, server.needsApproval);
  return {
    timeoutMs: 0,
    ...effectsOf(hints),
    ...(needsApproval !== undefined && { needsApproval }),
    ...server.policy?.(tool),
  };
}

function effectsOf({ readOnlyHint, idempotentHint, destructiveHint }: McpAnnotations): ToolPolicy {
  if (readOnlyHint === true) return { readOnly: true, onInDoubt: 'retry' };
  if (idempotentHint === true) return { idempotent: true, onInDoubt: 'retry' };
  return destructiveHint === true ? { onInDoubt: 'ask' } : {};
}

function approvalOf(
  tool: McpToolInfo,
  hints: McpAnnotations,
  needed: McpServerOptions['needsApproval'],
): ToolPolicy['needsApproval'] {
  if (typeof needed === 'function') return (args, context) => needed(tool, args, context);
  if (needed !== 'destructive') return needed;
  // A tool that says nothing of its effects may destroy something: so the protocol has it.
  return hints.readOnlyHint !== true && hints.destructiveHint !== false;
}
