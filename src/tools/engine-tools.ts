import type { ToolDefinition } from '../core/contracts/index.ts';
import type { Tool } from './tool.ts';

const definitions = new WeakSet<ToolDefinition>();

/**
 * Marks the definition of a tool that the engine offers for its own working, such as one that ends a turn: what users say of their tools in
 * general is not meant for it. No option of a tool, so that no provider can claim it for what it brings.
 */
export function engineDefinition(definition: ToolDefinition): ToolDefinition {
  definitions.add(definition);
  return definition;
}

/** As `engineDefinition`, of a tool. */
export function engineTool<Args>(tool: Tool<Args>): Tool<Args> {
  definitions.add(tool.definition);
  return tool;
}

export function isEngineTool(definition: ToolDefinition): boolean {
  return definitions.has(definition);
}
