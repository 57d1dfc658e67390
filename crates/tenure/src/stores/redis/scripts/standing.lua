-- What stands on the key, read in the same step that decides about it.
--
-- KEYS: the lock (its value is the owner), the record beside it.
-- A record has five lines: owner, fence, ttl in ms, when it was granted in µs, holder.
local lock, beside = KEYS[1], KEYS[2]
local owner = redis.pcall('GET', lock)
if type(owner) == 'table' then
  return owner -- Of another type than a string: the error that says so.
end
local record, left = false, 0
if owner then
  left = redis.call('PTTL', lock)
  record = redis.call('GET', beside)
  -- The record of another grant says nothing about this one.
  if record and string.sub(record, 1, #owner + 1) ~= owner .. '\n' then
    record = false
  end
end
