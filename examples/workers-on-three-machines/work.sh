#!/bin/sh
# Stands in for an agent that takes its time.
cat > /dev/null
sleep 3
echo "done on $MACHINE"
