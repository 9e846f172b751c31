import type { OptionKind } from '../../providers/policies/policy-options.ts';

export const someDollars: OptionKind = {
  isValid: (value) => typeof value === 'number' && value > 0 && Number.isFinite(value),
  words: 'US dollars, more than 0',
};

export const aReaction: OptionKind = {
  isValid: (value) => value === 'fail' || value === 'stop',
  words: '"fail" or "stop"',
};

export const aPriceList: OptionKind = {
  isValid: (value) => typeof value === 'object' && value !== null && typeof Reflect.get(value, 'find') === 'function',
  words: 'a list of prices, such as a ModelRegistry',
};
