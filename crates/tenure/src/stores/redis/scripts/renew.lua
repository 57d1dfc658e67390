-- ARGV: owner, ttl in ms, fence or ''.
if not is_of(ARGV[1], ARGV[3]) then
  return {'lost', owner, record, left}
end
prolong(tonumber(ARGV[2]))
return {'renewed', owner, record, left}
