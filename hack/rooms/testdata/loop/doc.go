package loop
