-- ARGV: owner, fence or '', the channel of the key.
if not is_of(ARGV[1], ARGV[2]) then
  return {'lost', owner, record, left}
end
redis.call('DEL', lock, beside)
-- The lock is free, whatever becomes of the wake-up.
redis.pcall('PUBLISH', ARGV[3], '')
return {'released', owner, record, left}
